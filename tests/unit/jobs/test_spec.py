"""What a spec is told when it cannot be taken, and where; and what each kind promises its container."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.core.errors import EXIT_USAGE, MissingInputError, SettingsError
from ci.jobs.spec import KINDS, Resources, Spec, leads_out, read_spec
from tests.job_specs import ARTIFACT, BUCKET, spec_of

NAMED = {"name": "registry.example.com/spyre/runtime:1"}
GIT = {"url": "https://git.example.com/a.git", "ref": "main", "to": "registry.example.com/a"}


def read(tmp_path: Path, **keys: Any) -> Spec:
    """A spec of kind notebook with keys of one's own, by way of a file."""
    path = tmp_path / "spec.yaml"
    document = {"version": 1, "kind": "notebook", "image": NAMED, **keys}
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return read_spec(path)


def command(*words: str, **more: Any) -> dict[str, Any]:
    return {"kind": "evaluation", "evaluation": {"command": list(words), **more}}


def train(**more: Any) -> dict[str, Any]:
    return {"kind": "train", "source": BUCKET, "store": {"volume": "a"}, "train": {"command": ["a"]} | more}


def artifact(**more: str) -> dict[str, Any]:
    return {"source": {"artifact": ARTIFACT["artifact"] | more}, "environment": {"MLFLOW_TRACKING_URI": "x"}}


NO_TEXT = "must be text, a number, true or false, or secret and key"
NO_MATCH = "String should match pattern"
NOTHING_SAYS = "the artifact's MLflow server is not known: give environment.MLFLOW_TRACKING_URI"


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"resource": {"cards": 1}}, "spec.yaml:5: unknown key 'resource', did you mean 'resources'?"),
        ({"version": 2}, "version: Input should be 1 (seen: 2)"),
        ({"kind": "test"}, "kind: Input should be 'tests', 'evaluation', 'load', 'train', 'serve' or"),
        ({"name": "Nightly"}, f"name: {NO_MATCH}"),
        ({"name": "a" * 21}, f"name: {NO_MATCH}"),
        ({"service_account": ""}, "service_account: String should have at least 1"),
        ({"deadline_minutes": 0}, "deadline_minutes: Input should be greater than or equal to 1 (seen: 0)"),
        ({"ttl_minutes": 0}, "ttl_minutes: Input should be greater than or equal to"),
        ({"retries": 11}, "retries: Input should be less than or equal to 10 (seen: 11)"),
        ({"user": 0}, "user: Input should be greater than or equal to 1 (seen: 0)"),
        ({"group": 1 << 31}, "group: Input should be less than or equal to 2147483647 (seen: 2147483648)"),
        ({"source_image": "Not An Image"}, f"source_image: {NO_MATCH}"),
        # What the job itself sets, and what no process takes.
        ({"tags": {"spyre-ci.io/commit": "x"}}, "spyre-ci.io/commit is set by the job itself"),
        ({"tags": {"a": "\0"}}, "tags.a: contains a NUL or an unpaired surrogate"),
        ({"environment": {"PARAM_A": "1"}}, "PARAM_A is set by the job itself; for PARAM_, use `parameters`"),
        ({"environment": {"SPYRE_CI_JOB_RUN": "1"}}, "SPYRE_CI_JOB_RUN is set by the job itself"),
        ({"environment": {"SPYRE_CI_IMAGE": "1"}}, "SPYRE_CI_IMAGE is set by the job itself"),
        ({"environment": {"JOB_COMPLETION_INDEX": "1"}}, "JOB_COMPLETION_INDEX is set by the job itself"),
        ({"environment": {"A-B": "1"}}, f"environment.A-B: {NO_MATCH}"),
        ({"parameters": {"epochs": 1}}, f"parameters.epochs: {NO_MATCH}"),
        ({"parameters": {"A": [1]}}, f"parameters.A: {NO_TEXT}"),
        ({"parameters": {"A": None}}, f"parameters.A: {NO_TEXT}"),
        ({"parameters": {"A": "a\0"}}, "parameters.A: contains a NUL or an unpaired surrogate"),
        ({"parameters": {"A": {"secret": "s"}}}, "parameters.A.key: Field required"),
        (command(), "evaluation.command: List should have at least 1"),
        (command(""), "evaluation.command.0: String should have at"),
        (command("a\0"), "evaluation.command.0: contains a NUL"),
        ({"kind": "load", "load": {"to": "http://models"}}, f"load.to: {NO_MATCH}"),
        ({"kind": "serve", "serve": {"quantization_bits": 5}}, "Input should be 4, 8 or 16 (seen: 5)"),
        ({"kind": "tests", "tests": {"pods": 5000}}, "tests.pods: Input should be less than or equal to 409"),
        # An image is named, or built.
        ({"image": {}}, "image: give exactly one of name, git and upload, not none"),
        (
            {"image": NAMED | {"git": GIT}},
            "image: give exactly one of name, git and upload, not name and git",
        ),
        ({"image": {"name": "a b"}}, f"image.name: {NO_MATCH}"),
        ({"image": {"git": GIT | {"url": "https://x.example.com/$(id)"}}}, f"image.git.url: {NO_MATCH}"),
        ({"image": {"git": GIT | {"ref": "--upload-pack=x"}}}, f"image.git.ref: {NO_MATCH}"),
        ({"image": {"git": GIT | {"containerfile": "a/../../b"}}}, "containerfile: leads out of its folder"),
        ({"image": {"git": GIT | {"to": "registry.example.com/a:1"}}}, f"image.git.to: {NO_MATCH}"),
        (
            {"image": {"git": GIT | {"url": "https://me:pw1234@example.com/x.git"}}},
            "contains a user or a pass",
        ),
        ({"image": {"upload": {"folder": "", "to": "a/b"}}}, "image.upload.folder: String should have at"),
        ({"image": {"upload": {"folder": ".", "to": "a", "containerfile": "/x"}}}, f"file: {NO_MATCH}"),
        # Cards, and what pods get.
        ({"resources": {"cards": 3, "tier": 1}}, "tier 1 takes 1 card or an even number, not 3"),
        ({"resources": {"cards": 5, "tier": 2}}, "tier 2 takes 1 card or an even number, not 5"),
        ({"resources": {"tier": 0}}, "a tier needs cards, but `cards` is 0"),
        (
            {"resources": {"cards": 2, "tier": 0, "resource": "nvidia.com/gpu"}},
            "only cards of ibm.com have tiers, not nvidia.com/gpu",
        ),
        ({"resources": {"cards": 65}}, "less than or equal to 64"),
        ({"resources": {"memory": "100"}}, "100 means bytes, too few for a pod: write 100Mi or 100Gi"),
        ({"resources": {"cpu": True}}, "should be a valid string"),
        # Where things are fetched from and put.
        ({"source": {}}, "give exactly one of artifact and bucket"),
        ({"source": ARTIFACT | BUCKET}, "give exactly one of artifact and bucket"),
        (artifact(path="a/../../b"), "leads out of its folder"),
        (artifact(path="/a"), NO_MATCH),
        (artifact(run="latest"), NO_MATCH),
        ({"source": {"bucket": "s3://Bucket"}}, NO_MATCH),
        ({"source": {"bucket": "s3://bucket/a b"}}, NO_MATCH),
        ({"source": {"bucket": "s3://bucket/a\x01b"}}, NO_MATCH),
        ({"store": {}}, "give exactly one of volume and bucket"),
        ({"store": {"volume": "a", "bucket": "s3://bucket"}}, "give exactly one of volume and bucket"),
        ({"tracking": {"experiment": ""}}, "at least 1 character"),
        ({"tracking": {"experiment": "a", "output": "../b"}}, NO_MATCH),
        ({"tracking": {"experiment": "a", "output": "b/../.."}}, "leads out of its folder"),
        # What a kind promises its container.
        ({"kind": "tests", "notebook": {}}, "kind is tests, and there is a section `notebook`: leave it out"),
        ({"kind": "load"}, "kind load needs a section `load`"),
        ({"kind": "train"}, "kind train needs a section `train`"),
        ({"kind": "evaluation"}, "kind evaluation needs a section `evaluation`"),
        ({"kind": "serve"}, "kind serve needs a `source`: give source.artifact or source.bucket"),
        ({"kind": "load", "load": {"to": "s3://models/base"}}, "kind load needs a `source`"),
        (train() | {"source": None}, "kind train needs a `source`"),
        (
            {"kind": "tests", "source": BUCKET, "store": {"volume": "a"}},
            "`source` has no meaning for kind tests",
        ),
        ({"kind": "tests"}, "kind tests needs a `store`: give store.volume (ReadWriteMany) or store.bucket"),
        (train() | {"store": None}, "kind train needs a `store`"),
        (
            {"kind": "tests", "store": {"bucket": "s3://runs"}, "tests": {"share": True}},
            "tests.share needs a volume that all pods write to: give store.volume",
        ),
        *(
            (
                {"kind": "serve", "source": BUCKET, name: 60 // number},
                f"`{name}` has no meaning for kind serve",
            )
            for name, number in {"deadline_minutes": 1, "ttl_minutes": 1, "retries": 60}.items()
        ),
        (train(configs=["../secret"]), "the config file '../secret' is not below the spec's folder"),
        (train(configs=["/etc/passwd"]), "the config file '/etc/passwd' is not below the spec's folder"),
        (train(configs=["C:secret"]), "the config file 'C:secret' is not below the spec's folder"),
        (
            command("a", "--conf={configs}/a"),
            "uses {configs}, but there are no config files: give evaluation.configs",
        ),
        (
            {**command("a"), "tracking": {"experiment": "a", "output": "b"}},
            "there is no `store`: give one",
        ),
        (command("a", "{results}"), "the command uses {results}, but there is no `store`: give one"),
        ({"kind": "serve", "source": ARTIFACT}, NOTHING_SAYS),
        (train(dataset=ARTIFACT), NOTHING_SAYS),
    ],
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else None,
)
def test_what_cannot_be_taken_is_told_with_its_place(tmp_path: Path, keys: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, **keys)
    assert told in str(caught.value)
    assert str(caught.value.where).startswith(f"{tmp_path / 'spec.yaml'}")
    assert caught.value.remedy
    assert caught.value.exit_code == EXIT_USAGE


def test_a_file_that_is_not_there_is_told_with_where_examples_are(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="there is no such job spec") as caught:
        read_spec(tmp_path / "none.yaml")
    assert "see examples/" in str(caught.value)


def test_the_smallest_spec_has_all_its_defaults(tmp_path: Path) -> None:
    spec = read(tmp_path)
    assert (spec.retries, spec.ttl_minutes, spec.resources.scratch.size) == (2, 1440, "10Gi")
    assert spec.configs == []


@pytest.mark.parametrize(
    "image",
    [
        {"name": "registry.example.com:5000/a/b-c_d/e.f:2.13-rc1"},
        {"name": f"localhost/a@sha256:{'0' * 64}"},
        {"name": f"registry.example.com/a:1@sha256:{'0' * 64}"},
        {"name": "busybox"},
        # What is pushed has no tag, but may have a port.
        *({"git": GIT | {"to": to}} for to in ("registry.example.com:5000/a", "localhost:5000/a/b", "a")),
    ],
)
def test_images_are_named_as_registries_name_them(tmp_path: Path, image: dict[str, Any]) -> None:
    assert read(tmp_path, image=image).image.model_dump(include=set(image), exclude_unset=True) == image


def test_a_value_is_what_yaml_says_it_is(tmp_path: Path) -> None:
    given = {"A": 1, "B": 0.5, "C": True, "D": "true", "E": "", "F": {"secret": "s", "key": "k"}}
    found = read(tmp_path, parameters=given).model_dump()["parameters"]
    assert json.dumps(found) == json.dumps(given)


@pytest.mark.parametrize(
    ("cards", "tier", "name"),
    [*((cards, 2, "ibm.com/spyre_pf_tier2") for cards in (1, 2, 4, 8)), (3, 0, "ibm.com/spyre_pf_tier0"),
     (3, None, "ibm.com/spyre_pf")],
)  # fmt: skip
def test_near_cards_come_alone_or_in_pairs(cards: int, tier: Any, name: str) -> None:
    assert Resources(cards=cards, tier=tier).card_resource == name


def test_cores_and_memory_may_be_numbers() -> None:
    resources = Resources.model_validate({"cpu": 0.5, "memory": 1 << 30})
    assert (resources.cpu, resources.memory) == ("0.5", "1073741824")


@pytest.mark.parametrize("path", ["/a", "..", "a/../b", "a/..", "C:a", "c:/a"])
@pytest.mark.parametrize("other", ["a", "a/b", "..a/b", "a/b..", "./a"])
def test_paths_that_lead_out_are_known(path: str, other: str) -> None:
    assert leads_out(path)
    assert not leads_out(other)


@pytest.mark.parametrize("kind", KINDS)
def test_a_spec_of_every_kind_keeps_its_contract(kind: str) -> None:
    assert spec_of(kind).kind == kind


def test_an_address_from_a_secret_will_do() -> None:
    spec_of("serve", source=ARTIFACT, environment={"MLFLOW_TRACKING_URI": {"secret": "a", "key": "b"}})
