"""Manifests as they were looked at once, held against every release's schemas."""

from __future__ import annotations

from typing import Any

import pytest

from ci.jobs.job import Job
from ci.jobs.parcels import BOUND
from ci.jobs.render import render, to_yaml
from ci.jobs.spec import KINDS
from tests.conftest import Golden
from tests.job_specs import ARTIFACT, MLFLOW, job_of, spec_of
from tests.manifests import broken_rules, check_strictly


def _jobs() -> dict[str, Job]:
    """One job of each kind, and of what a cluster asks besides."""
    large = {f"slice-{pod}.json.gz": b"\x1f\x8b" for pod in range(2)}
    keys = {
        name: {"secret": "store-keys", "key": name.lower()}
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    }
    return {
        **{kind: job_of(spec_of(kind)) for kind in KINDS},
        "tests-queue": job_of(spec_of("tests", queue="cards", priority="nightly", service_account="runner")),
        "tests-tier": job_of(spec_of("tests", resources={"cards": 2, "tier": 1})),
        "tests-bucket": job_of(spec_of("tests", store={"bucket": "s3://runs/nightly"}, environment=keys)),
        "tests-by-volume": job_of(spec_of("tests"), files=large, by_volume=True),
        "train-storage-class": job_of(
            spec_of(
                "train",
                resources={"cards": 8, "scratch": {"size": "500Gi", "storage_class": "fast"}},
                environment=MLFLOW,
                source_image="registry.example.com/tools/mlflow:3.1",
                train={"command": ["train"], "dataset": ARTIFACT, "configs": ["conf/train.yaml"]},
            )
        ),
        "evaluation-user": job_of(spec_of("evaluation", user=1001, group=2001)),
        "serve-artifact": job_of(
            spec_of("serve", source=ARTIFACT, environment=MLFLOW, serve={"quantization_bits": 8})
        ),
        "notebook-taints": job_of(
            spec_of(
                "notebook",
                image={"name": "registry.example.com/notebook:1", "pull_secrets": ["registry"]},
                node_selector={"ibm.com/spyre.present": "true"},
                tolerations=[
                    {"key": "ibm.com/spyre", "effect": "NoSchedule"},
                    {"key": "pool", "operator": "Equal", "value": "ci", "effect": "NoExecute", "seconds": 60},
                ],
                notebook={"token": "my-token"},
                tags={"team": "compiler", "example.com/why": "a look at shard 17: it's slow"},
            )
        ),
    }


JOBS = _jobs()


@pytest.mark.parametrize("name", JOBS)
def test_manifests_are_what_was_looked_at_and_fit_every_release(name: str, golden: Golden) -> None:
    manifests = render(JOBS[name])
    check_strictly(manifests)
    assert broken_rules(manifests) == []
    golden(f"jobs/{name}.yaml", to_yaml(manifests))


def test_files_of_several_config_maps_are_mounted_as_one_folder(golden: Golden) -> None:
    files = {f"slice-{pod}.json.gz": b"\x1f\x8b" + bytes(BOUND // 2) for pod in range(3)}
    spec = spec_of(
        "tests", queue="cards", store={"bucket": "s3://runs/nightly"}, resources={"cards": 4, "tier": 1}
    )
    manifests = render(job_of(spec, files=files))
    check_strictly(manifests)
    assert broken_rules(manifests) == []
    assert [sorted(one.get("binaryData", {})) for one in manifests] == [
        ["slice-0.json.gz"],
        ["slice-1.json.gz"],
        ["slice-2.json.gz"],
        [],
    ]
    golden("jobs/tests-split.yaml", to_yaml(list(map(_without_content, manifests))))


def _without_content(one: dict[str, Any]) -> dict[str, Any]:
    """Without megabytes of nothing, which no one reads."""
    content = one.get("binaryData", {})
    return one | (
        {"binaryData": {key: f"{len(value)} letters" for key, value in content.items()}} if content else {}
    )
