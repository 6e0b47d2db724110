"""What opens the gate of an index: every step green of this very commit, and these very files verified."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.tags import parse_tag
from packaging.version import Version

from ci.config.package_model import Gate, Index
from ci.package.artifacts import Artifact
from ci.package.gate import STEPS, Release, check_gate, check_index
from ci.package.records import DEVICE, LINT, UNIT, VERIFY, Record

COMMIT = "c" * 40
WHEEL = Artifact(
    path=Path("demo-1.0-py3-none-any.whl"), kind="wheel", name="demo", version=Version("1.0"),
    tags=frozenset(parse_tag("py3-none-any")), sha256="a" * 64, size=1 << 20,
)  # fmt: skip
RELEASE = Release(project="demo", commit=COMMIT, dirty=(), artifacts=[WHEEL])
GREEN = {
    step: Record(
        step=step, project="demo", commit=COMMIT, passed=True,
        details={"files": [{"name": WHEEL.filename, "sha256": WHEEL.sha256}]} if step == VERIFY else {},
    )
    for step in (LINT, UNIT, DEVICE, VERIFY)
}  # fmt: skip


def failed(gate: Gate, /, release: Release = RELEASE, **changes: Any) -> dict[str, str]:
    """What shuts a gate, where some records are otherwise than green."""
    records: dict[str, Record | None] = {
        step: change if (change := changes.get(step, {})) is None else replace(record, **change)
        for step, record in GREEN.items()
    }
    asked = {step: records[step] for step in (*STEPS[gate], VERIFY)}
    return {one.check: one.seen for one in check_gate(release, gate, asked) if not one.passed}


@pytest.mark.parametrize("gate", ["none", "merge", "full"])
def test_a_green_commit_opens_every_gate(gate: Gate) -> None:
    assert failed(gate) == {}


@pytest.mark.parametrize("step", [LINT, UNIT, DEVICE])
@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (None, "was not run"),
        ({"passed": False}, "for demo at cccccccccccc, failed"),
        ({"commit": "d" * 40}, "for demo at dddddddddddd"),
        ({"commit": ""}, "for demo at no commit"),
        ({"dirty": ("a",)}, "for demo at cccccccccccc, changed"),
        ({"project": "other"}, "for other at cccccccccccc"),
    ],
)
def test_each_step_must_be_green_of_this_very_commit(
    step: str, change: dict[str, Any] | None, seen: str
) -> None:
    assert failed("full", RELEASE, **{step: change}) == {step: seen}
    assert failed("none", RELEASE, **{step: change}) == {}
    assert failed("merge", RELEASE, **{step: change}) == ({} if step == DEVICE else {step: seen})


def test_the_emulated_device_opens_no_full_gate() -> None:
    assert failed("full", device={"details": {"emulated": True}}) == {"device": "ran on the emulated device"}
    assert failed("full", unit={"details": {"emulated": True}}) == {}


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (None, {"verified": "not recorded"}),
        ({"passed": False}, {"verified": "a check failed"}),
        ({"commit": "d" * 40}, {"commit": "verified dddddddddddd, checked out cccccccccccc"}),
        (
            {"dirty": ("a",)},
            {"checkout when it was built or verified": "differs from its commit: a"},
        ),
        ({"details": {}}, {WHEEL.filename: "was not verified"}),
        (
            {"details": {"files": [{"name": WHEEL.filename, "sha256": "b"}]}},
            {WHEEL.filename: f"sha256 {WHEEL.sha256}, but b was verified"},
        ),
    ],
)
@pytest.mark.parametrize("gate", ["none", "merge", "full"])
def test_these_very_files_must_be_verified(
    gate: Gate, change: dict[str, Any] | None, seen: dict[str, str]
) -> None:
    assert failed(gate, verify=change) == seen


def test_a_changed_checkout_and_another_project_are_told() -> None:
    assert failed("none", replace(RELEASE, dirty=["a", "b"])) == {"checkout": "differs from its commit: a, b"}
    assert failed("none", replace(RELEASE, project="other")).keys() == {"project", "verified"}


def test_an_index_takes_some_versions_tags_and_sizes() -> None:
    strict = Index(
        upload="https://i/", simple="https://i/", local_versions=False, linux_tags=False, max_mib=0.5
    )
    wheel = replace(WHEEL, version=Version("1.0+gabc"), tags=frozenset(parse_tag("py3-none-linux_x86_64")))
    told = [one.remedy for one in check_index([wheel], "stage", strict)]
    assert [one.partition(":")[0] for one in told] == [
        "stage accepts no local versions", "stage needs a manylinux tag", "stage accepts at most 0.5 MiB",
    ]  # fmt: skip
    lenient = Index(upload="https://i/", simple="https://i/")
    assert all(one.passed for one in check_index([wheel], "stage", lenient))
