"""What MLflow is told of a job."""

from __future__ import annotations

import json

import pytest

from ci.jobs.tracking import config_sha, status_of, tags_of
from tests.tracked import SPEC, job_of


def test_the_tags_of_a_job() -> None:
    tags = tags_of(job_of(), "jobs/eval.yaml", SPEC)
    resources = json.loads(tags.pop("spyre-ci.resources"))
    assert (resources["cards"], resources["tier"], resources["resource"]) == (2, 1, "ibm.com/spyre_pf")
    assert tags == {
        "team": "kernels",
        "example.com/why": "nightly",
        "spyre-ci.job": "evaluation-brave-otter-01234",
        "spyre-ci.run": "20261123-021500-abcd",
        "spyre-ci.kind": "evaluation",
        "spyre-ci.config-path": "jobs/eval.yaml",
        "spyre-ci.config-sha256": config_sha(SPEC, {"conf/helm.conf": b"entries: []\n"}),
        "spyre-ci.image": "registry.example:5000/team/evals:1.2@sha256:" + "ab" * 32,
        "spyre-ci.image-tag": "1.2",
        "spyre-ci.source": "s3://models/granite",
        "spyre-ci.commit": "c" * 40,
        "spyre-ci.dirty": "false",
        "mlflow.source.git.commit": "c" * 40,
    }


def test_an_artifact_is_told_by_its_address_and_no_tag_of_a_spec_stands_for_ours() -> None:
    job = job_of(source={"artifact": {"run": "a" * 32, "path": "model"}})
    assert tags_of(job, "eval.yaml", SPEC)["spyre-ci.source"] == f"runs:/{'a' * 32}/model"
    tags = tags_of(job_of(source=None, tags={"spyre-ci.job": "another"}), "eval.yaml", SPEC)
    assert "spyre-ci.source" not in tags
    assert tags["spyre-ci.job"] == "evaluation-brave-otter-01234"


def test_a_digest_of_configs_is_of_names_and_contents() -> None:
    digests = [
        config_sha(b"spec", {"a": b"bc"}),
        config_sha(b"spec", {"ab": b"c"}),
        config_sha(b"spec", {"a": b"b", "c": b""}),
        config_sha(b"spec", {}),
        config_sha(b"speca", {"": b"bc"}),
    ]
    assert len(set(digests)) == 5
    assert config_sha(b"", {"a": b"1", "b": b"2"}) == config_sha(b"", {"b": b"2", "a": b"1"})


@pytest.mark.parametrize(
    ("code", "status"), [(0, "FINISHED"), (1, "FAILED"), (2, "FAILED"), (3, "FAILED"), (130, "KILLED")]
)
def test_how_a_job_ended_in_mlflows_words(code: int, status: str) -> None:
    assert status_of(code) == status
