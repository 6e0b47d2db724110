"""What is made of what an image shows: findings, sizes, its SBOM; nothing is started."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from ci.core.containers import Ended
from ci.core.errors import CommandError
from ci.core.findings import VerificationError, judged, refuse_failed
from ci.image.containerfile import COMMIT_LABEL, PYTORCH_LABEL
from ci.image.sbom import NEVER, created_at, sbom_of
from ci.image.smoke import NEEDED, check_labels, check_torch, check_user, commit_told, how, torch_of

from .stacks import COMMIT, DIGEST, SHA256, TOP, resolved


def test_every_check_that_failed_is_named_with_its_remedy() -> None:
    findings = [
        judged("user", "runs as 0", holds=False, remedy="set USER"),
        judged("torch", "2.13.0", holds=True, remedy="pin it"),
        judged("size", "grew", holds=False, remedy="shrink it"),
    ]
    assert [one.line for one in findings] == ["FAIL user: runs as 0", "ok   torch: 2.13.0", "FAIL size: grew"]
    with pytest.raises(VerificationError) as caught:
        refuse_failed("image", findings)
    assert caught.value.exit_code == 1
    for part in ("2 of 3 checks failed", "user: runs as 0", "set USER", "size: grew", "shrink it"):
        assert part in caught.value.what
    refuse_failed("image", findings[1:2])


def test_labels_that_are_missing_or_other_are_named() -> None:
    whole = dict.fromkeys(NEEDED, "x")
    assert check_labels({**whole, "more": "y"}, whole).passed
    found = check_labels({**whole, NEEDED[0]: ""}, {**whole, "new": "1"})
    assert found.seen == f"new is missing; {NEEDED[0]} is empty, not x"
    assert check_labels({}, {str(one): "" for one in range(9)}).seen.endswith("and 10 more")


@pytest.mark.parametrize(
    ("user", "good"), [("10001:0", True), ("1", True), ("0:0", False), ("spyre", False), ("", False)]
)
def test_the_user_is_a_number_and_not_roots(user: str, *, good: bool) -> None:
    assert check_user(user).passed == good


@pytest.mark.parametrize(
    ("label", "version", "commit", "wrong"),
    [
        ("torch==2.13.0", "2.13.0", COMMIT, ""),
        ("torch==2.13.0", "2.13.0+cpu", COMMIT, ""),
        ("torch==2.13.0+cpu", "2.13.0", COMMIT, ", not 2.13.0+cpu"),
        ("torch==2.13.0", "2.12.0", COMMIT, ", not 2.13.0"),
        (COMMIT, "2.15.0a0", COMMIT, ""),
        ("torch==2.13.0", "2.13.0", "b" * 40, f", not {COMMIT}"),
    ],
)
def test_torch_is_the_one_that_the_labels_say(label: str, version: str, commit: str, wrong: str) -> None:
    ended = Ended(exit_code=0, last=("a warning", json.dumps({"version": version, "commit": commit})))
    found = check_torch(ended, {PYTORCH_LABEL: label, COMMIT_LABEL: COMMIT})
    assert (found.passed, found.seen) == (not wrong, f"{version} at {commit}{wrong}")
    failed = check_torch(Ended(exit_code=1, last=("No module named 'x'",)), {})
    assert failed.seen == "import torch ended with code 1, last output: No module named 'x'"


@pytest.mark.parametrize("said", ["Unknown", "", "a" * 39, "--upload-pack=x"])
def test_an_image_whose_torch_tells_no_commit_is_refused(said: str) -> None:
    assert (
        commit_told(Ended(exit_code=0, last=(json.dumps({"version": "2", "commit": COMMIT}),)), "x") == COMMIT
    )
    with pytest.raises(CommandError, match=r"torch\.version\.git_version is"):
        commit_told(Ended(exit_code=0, last=(json.dumps({"version": "2", "commit": said}),)), "x")
    with pytest.raises(CommandError, match="import torch took too long"):
        commit_told(Ended(exit_code=137, timed_out=True), "x")


def test_how_a_container_ended_is_a_line() -> None:
    assert how(Ended(exit_code=3, last=("a", "b", " "))) == "ended with code 3, last output: b"
    hostile = ("##[error]https://u:pw@h/x",)
    assert how(Ended(exit_code=3, last=hostile)) == "ended with code 3, last output: # #[error]https://h/x"
    assert how(Ended(exit_code=137, timed_out=True)) == "took too long and was stopped"
    said = '{"version": "2.13.0", "commit": "c"}'
    for printed in (["noise", said], [said, "card 0 released", "1"]):
        assert torch_of(Ended(exit_code=0, last=tuple(printed))) == ("2.13.0", "c")
    for last in ((), ("[1]",), ("x",), ('{"version": 1}',)):
        assert torch_of(Ended(exit_code=0, last=last)) == ("", "")
    assert torch_of(Ended(exit_code=1, last=(said,))) == ("", "")


COMPONENTS = """components:
  - {name: flex, git: {url: "https://example.com/flex.git", steps: [make]}}
  - {name: senlib, image: {name: "r.example/senlib:1", paths: [{source: /opt/s}]}}
  - {name: drivers, files: [packages/a.deb]}
"""
LINES = ["WARNING: noise", "torch==2.13.0", "PyYAML==6.0", "deb/debian\tdpkg\t1:1.21~x\tamd64"]


def test_an_sbom_holds_packages_and_components_and_is_the_same_again(tmp_path: Path) -> None:
    name, stack = "r.example:5000/runtime:stack-1", resolved(tmp_path, TOP + COMPONENTS)
    text, again, other = (
        sbom_of(LINES, name=name, image=image, created=NEVER, stack=stack)
        for image in (DIGEST, DIGEST, "sha256:" + "e" * 64)
    )
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert text == again
    content = json.loads(text)
    top = content["metadata"]["component"]
    assert (top["name"], top["version"]) == ("r.example:5000/runtime", "stack-1")
    parts = {one["name"]: one for one in content["components"]}
    assert parts["PyYAML"]["purl"] == "pkg:pypi/pyyaml@6.0"
    assert parts["dpkg"]["purl"] == "pkg:deb/debian/dpkg@1:1.21~x?arch=amd64"
    assert parts["flex"]["pedigree"]["commits"] == [{"uid": COMMIT, "url": "https://example.com/flex.git"}]
    assert parts["senlib"]["hashes"] == [{"alg": "SHA-256", "content": "d" * 64}]
    assert parts["drivers"]["hashes"] == [{"alg": "SHA-256", "content": SHA256}]
    assert parts["registry.example:5000/debian:bookworm"]["version"] == DIGEST
    assert json.loads(other)["serialNumber"] != content["serialNumber"]


def test_when_an_image_was_made() -> None:
    assert created_at("2026-05-04T03:02:01.123456789Z", "") == datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)
    assert created_at("2026-05-04T03:02:01Z", "86400") == datetime(1970, 1, 2, tzinfo=UTC)
    assert created_at("nonsense", "") == NEVER
