"""What a spec is told when it cannot be taken, and where; and what each kind promises its container."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from ci.core.errors import EXIT_USAGE, MissingInputError, SettingsError
from ci.jobs.job import CONTRACTS, check_contract
from ci.jobs.spec import (
    KINDS,
    Resources,
    Scratch,
    Source,
    Spec,
    Store,
    Tracking,
    leads_out,
    read_spec,
)
from tests.job_specs import ARTIFACT, BUCKET, IMAGE, spec_of

PLACE = ARTIFACT["artifact"]
NAMED = {"name": "registry.example.com/spyre/runtime:1"}
GIT = {"url": "https://git.example.com/a.git", "ref": "main", "to": "registry.example.com/a"}
COMMAND = {"command": ["run"]}


def read(tmp_path: Path, **keys: Any) -> Spec:
    """A spec of kind notebook with keys of one's own, by way of a file."""
    path = tmp_path / "spec.yaml"
    document = {"version": 1, "kind": "notebook", "image": NAMED, **keys}
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return read_spec(path)


def refused(tmp_path: Path, **keys: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, **keys)
    assert caught.value.exit_code == EXIT_USAGE
    assert str(caught.value.where).startswith(f"{tmp_path / 'spec.yaml'}")
    return str(caught.value)


def test_the_smallest_spec_has_all_its_defaults(tmp_path: Path) -> None:
    spec = read(tmp_path)
    assert (spec.retries, spec.ttl_minutes, spec.resources.scratch.size) == (2, 1440, "10Gi")
    assert spec.configs == []


def test_a_file_that_is_not_there_is_told_with_where_examples_are(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="there is no such job spec") as caught:
        read_spec(tmp_path / "none.yaml")
    assert "see examples/" in str(caught.value)


def test_an_unknown_key_is_told_with_its_line_and_what_was_meant(tmp_path: Path) -> None:
    said = refused(tmp_path, resource={"cards": 1})
    assert "spec.yaml:5: unknown key 'resource', did you mean 'resources'?" in said


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"version": 2}, "version: Input should be 1 (seen: 2)"),
        ({"kind": "test"}, "kind: Input should be 'tests', 'evaluation', 'load', 'train', 'serve' or"),
        ({"kind": "tests", "notebook": {}}, "kind is tests, and there is a section `notebook`: leave it out"),
        ({"kind": "load"}, "kind load wants a section `load`"),
        ({"kind": "train"}, "kind train wants a section `train`"),
        ({"kind": "evaluation"}, "kind evaluation wants a section `evaluation`"),
        ({"name": "Nightly"}, "name: String should match pattern"),
        ({"name": "a" * 21}, "name: String should match pattern"),
        ({"service_account": "A"}, "service_account: String should match pattern"),
        ({"deadline_minutes": 0}, "deadline_minutes: Input should be greater than or equal to 1 (seen: 0)"),
        ({"ttl_minutes": 0}, "ttl_minutes: Input should be greater than or equal to 10 (seen: 0)"),
        ({"retries": 11}, "retries: Input should be less than or equal to 10 (seen: 11)"),
        ({"user": 0}, "user: Input should be greater than or equal to 1 (seen: 0)"),
        ({"group": 1 << 31}, "group: Input should be less than or equal to 2147483647 (seen: 2147483648)"),
        ({"source_image": "Not An Image"}, "source_image: String should match pattern"),
        ({"tags": {"spyre-ci.io/commit": "x"}}, "spyre-ci.io/commit is what the job itself sets"),
        ({"tags": {"a": "\0"}}, "tags.a: holds a NUL, or half a pair of surrogates"),
        ({"environment": {"PARAM_A": "1"}}, "PARAM_A is what the job itself sets; give `parameters`"),
        ({"environment": {"SPYRE_CI_JOB_RUN": "1"}}, "SPYRE_CI_JOB_RUN is what the job itself sets"),
        ({"environment": {"SPYRE_CI_IMAGE": "1"}}, "SPYRE_CI_IMAGE is what the job itself sets"),
        ({"environment": {"JOB_COMPLETION_INDEX": "1"}}, "JOB_COMPLETION_INDEX is what the job itself sets"),
        ({"environment": {"A-B": "1"}}, "environment.A-B: String should match pattern"),
        ({"parameters": {"epochs": 1}}, "parameters.epochs: String should match pattern"),
        ({"parameters": {"A": [1]}}, "parameters.A: is no text, number, true or false, nor secret and key"),
        ({"parameters": {"A": None}}, "parameters.A: is no text, number, true or false, nor secret and key"),
        ({"parameters": {"A": "a\0"}}, "parameters.A: holds a NUL, or half a pair of surrogates"),
        ({"parameters": {"A": {"secret": "s"}}}, "parameters.A.key: Field required"),
        (
            {"kind": "evaluation", "evaluation": {"command": []}},
            "evaluation.command: List should have at least 1",
        ),
        (
            {"kind": "evaluation", "evaluation": {"command": [""]}},
            "evaluation.command.0: String should have at",
        ),
        ({"kind": "evaluation", "evaluation": {"command": ["a\0"]}}, "evaluation.command.0: holds a NUL"),
        (
            {"kind": "train", "train": COMMAND | {"configs": ["../secret"]}},
            "the config file '../secret' is not below the spec's folder",
        ),
        (
            {"kind": "train", "train": COMMAND | {"configs": ["/etc/passwd"]}},
            "the config file '/etc/passwd' is not below the spec's folder",
        ),
        (
            {"kind": "train", "train": COMMAND | {"configs": ["C:secret"]}},
            "the config file 'C:secret' is not below the spec's folder",
        ),
        ({"kind": "load", "load": {"to": "http://models"}}, "load.to: String should match pattern"),
        ({"kind": "serve", "serve": {"quantization_bits": 5}}, "Input should be 4, 8 or 16 (seen: 5)"),
        (
            {"kind": "tests", "tests": {"pods": 5000}},
            "tests.pods: Input should be less than or equal to 4096",
        ),
    ],
    ids=lambda value: json.dumps(value)[:60] if isinstance(value, dict) else None,
)
def test_a_key_that_cannot_be_taken_is_told(tmp_path: Path, keys: dict[str, Any], told: str) -> None:
    assert told in refused(tmp_path, **keys)


@pytest.mark.parametrize(
    ("image", "told"),
    [
        ({}, "image: give exactly one of name, git and upload, not none"),
        (NAMED | {"git": GIT}, "image: give exactly one of name, git and upload, not name and git"),
        ({"name": "a b"}, "image.name: String should match pattern"),
        ({"git": GIT | {"url": "https://x.example.com/$(id)"}}, "image.git.url: String should match pattern"),
        ({"git": GIT | {"ref": "--upload-pack=x"}}, "image.git.ref: String should match pattern"),
        ({"git": GIT | {"containerfile": "a/../../b"}}, "image.git.containerfile: leads out of its folder"),
        ({"git": GIT | {"to": "registry.example.com/a:1"}}, "image.git.to: String should match pattern"),
        ({"upload": {"folder": "", "to": "a/b"}}, "image.upload.folder: String should have at least 1"),
        (
            {"git": GIT | {"url": "https://me:pw1234@example.com/x.git"}},
            "image.git.url: holds a user or a password, which a saved spec would tell",
        ),
        ({"upload": {"folder": ".", "to": "a", "containerfile": "/x"}}, "image.upload.containerfile: String"),
    ],
)
def test_an_image_that_cannot_be_taken_is_told(tmp_path: Path, image: dict[str, Any], told: str) -> None:
    assert told in refused(tmp_path, image=image)


@pytest.mark.parametrize(
    "name",
    [
        "registry.example.com:5000/a/b-c_d/e.f:2.13-rc1",
        f"localhost/a@sha256:{'0' * 64}",
        f"registry.example.com/a:1@sha256:{'0' * 64}",
        "busybox",
    ],
)
def test_images_are_named_as_registries_name_them(tmp_path: Path, name: str) -> None:
    assert read(tmp_path, image={"name": name}).image.name == name


@pytest.mark.parametrize("to", ["registry.example.com:5000/a", "localhost:5000/a/b", "busybox"])
def test_what_is_pushed_has_no_tag_but_may_have_a_port(tmp_path: Path, to: str) -> None:
    git = read(tmp_path, image={"git": GIT | {"to": to}}).image.git
    assert git is not None
    assert git.to == to


def test_a_value_is_what_yaml_says_it_is(tmp_path: Path) -> None:
    given = {"A": 1, "B": 0.5, "C": True, "D": "true", "E": "", "F": {"secret": "s", "key": "k"}}
    found = read(tmp_path, parameters=given).parameters
    assert {name: value for name, value in found.items() if name != "F"} == {
        name: value for name, value in given.items() if name != "F"
    }
    assert type(found["C"]) is bool
    assert type(found["D"]) is str


@pytest.mark.parametrize(
    ("model", "given", "told"),
    [
        (Resources, {"cards": 3, "tier": 1}, "tier 1 takes 1 card or an even number, not 3"),
        (Resources, {"cards": 5, "tier": 2}, "tier 2 takes 1 card or an even number, not 5"),
        (Resources, {"tier": 0}, "a tier is of cards, and there are none"),
        (
            Resources,
            {"cards": 2, "tier": 0, "resource": "nvidia.com/gpu"},
            "tiers are of ibm.com's cards, not of nvidia.com/gpu",
        ),
        (Resources, {"cards": 65}, "less than or equal to 64"),
        (Resources, {"memory": "16 GB"}, "should match pattern"),
        (Resources, {"memory": "100"}, "100 are bytes, and no pod runs in them: is it 100Mi or 100Gi?"),
        (Resources, {"cpu": True}, "should be a valid string"),
        (Resources, {"resource": "gpu"}, "should match pattern"),
        (Scratch, {"size": "much"}, "should match pattern"),
        (Source, {}, "give exactly one of artifact and bucket"),
        (Source, {"artifact": PLACE, "bucket": "s3://bucket"}, "give exactly one of artifact and bucket"),
        (Source, {"artifact": PLACE | {"path": "a/../../b"}}, "leads out of its folder"),
        (Source, {"artifact": PLACE | {"path": "/a"}}, "should match pattern"),
        (Source, {"artifact": PLACE | {"run": "latest"}}, "should match pattern"),
        (Source, {"bucket": "s3://Bucket"}, "should match pattern"),
        (Source, {"bucket": "s3://bucket/a b"}, "should match pattern"),
        (Source, {"bucket": "s3://bucket/a\x01b"}, "should match pattern"),
        (Store, {}, "give exactly one of volume and bucket"),
        (Store, {"volume": "a", "bucket": "s3://bucket"}, "give exactly one of volume and bucket"),
        (Tracking, {"experiment": ""}, "at least 1 character"),
        (Tracking, {"experiment": "a", "output": "../b"}, "should match pattern"),
        (Tracking, {"experiment": "a", "output": "b/../.."}, "leads out of its folder"),
    ],
)
def test_what_cannot_be_taken_is_told(model: type[BaseModel], given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        model.model_validate(given)


@pytest.mark.parametrize("cards", [1, 2, 4, 8])
def test_near_cards_come_alone_or_in_pairs(cards: int) -> None:
    assert Resources(cards=cards, tier=2).card_resource == "ibm.com/spyre_pf_tier2"


def test_a_tier_of_none_may_have_any_number_of_cards() -> None:
    assert Resources(cards=3, tier=0).card_resource == "ibm.com/spyre_pf_tier0"
    assert Resources(cards=3).card_resource == "ibm.com/spyre_pf"


def test_cores_and_memory_may_be_numbers() -> None:
    resources = Resources.model_validate({"cpu": 0.5, "memory": 1 << 30})
    assert (resources.cpu, resources.memory) == ("0.5", "1073741824")


@pytest.mark.parametrize("path", ["/a", "..", "a/../b", "a/..", "C:a", "c:/a"])
@pytest.mark.parametrize("other", ["a", "a/b", "..a/b", "a/b..", "./a"])
def test_paths_that_lead_out_are_known(path: str, other: str) -> None:
    assert leads_out(path)
    assert not leads_out(other)


WHERE = Path("job.yaml")


def made(kind: str, **keys: Any) -> Spec:
    return Spec.model_validate({"version": 1, "kind": kind, "image": {"name": IMAGE}, **keys})


def test_every_kind_has_a_contract() -> None:
    assert set(CONTRACTS) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_spec_of_every_kind_keeps_its_contract(kind: str) -> None:
    assert spec_of(kind).kind == kind


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (made("serve"), "kind serve wants a `source`"),
        (made("load", load={"to": "s3://models/base"}), "kind load wants a `source`"),
        (made("train", train={"command": ["a"]}), "kind train wants a `source`"),
        (made("tests", source=BUCKET, store={"volume": "a"}), "`source` has no meaning for kind tests"),
        (made("tests"), "kind tests wants a `store`"),
        (made("train", source=BUCKET, train={"command": ["a"]}), "kind train wants a `store`"),
        (
            made("tests", store={"bucket": "s3://runs"}, tests={"share": True}),
            "tests.share wants a volume that all pods write",
        ),
        (
            made("serve", source=BUCKET, deadline_minutes=60),
            "`deadline_minutes` has no meaning for kind serve, which lasts until it is cancelled",
        ),
        (made("serve", source=BUCKET, retries=1), "`retries` has no meaning for kind serve"),
        (
            made("evaluation", evaluation={"command": ["run", "--conf={configs}/a"]}),
            r"the command names \{configs\}, and there are none",
        ),
        (
            made("serve", source=BUCKET, serve={"command": ["serve", "{results}"]}),
            r"the command names \{results\}, and there is no `store`",
        ),
        (made("serve", source=ARTIFACT), "an artifact is fetched, and nothing says from where"),
        (
            made(
                "train",
                source=BUCKET,
                store={"volume": "a"},
                train={"command": ["a"], "dataset": ARTIFACT},
            ),
            "an artifact is fetched, and nothing says from where",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else value.kind,
)
def test_a_contract_that_is_not_kept_is_told_with_what_to_give(given: Spec, told: str) -> None:
    with pytest.raises(SettingsError, match=told) as caught:
        check_contract(given, WHERE)
    assert caught.value.where == "job.yaml"
    assert caught.value.remedy
    assert caught.value.exit_code == EXIT_USAGE


def test_an_address_from_a_secret_will_do() -> None:
    address = {"MLFLOW_TRACKING_URI": {"secret": "mlflow", "key": "address"}}
    check_contract(made("serve", source=ARTIFACT, environment=address), WHERE)
