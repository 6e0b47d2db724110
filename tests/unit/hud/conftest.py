"""A good nightly callback for every test to bend."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from ci.hud.payload import RunIdentity, Ways, ended_of

SHA = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "torch-spyre/torch-spyre"


def told_of(identity: RunIdentity, ways: Ways | None = None, **summary: Any) -> dict[str, Any]:
    """The callback of a run that ended."""
    content = {"run": "r1", "verdicts": {"passed": 1}, "exit_code": 0, **summary}
    return ended_of(
        {"identity": identity.model_dump(), **content}, ways or Ways(environ={}), path=Path("summary.json")
    )


def bent(payload: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """A copy with the value at a dotted key replaced, or taken out where it is `...`."""
    content = copy.deepcopy(payload)
    *parents, leaf = key.split(".")
    table = content
    for parent in parents:
        table = table[parent]
    if value is ...:
        del table[leaf]
    else:
        table[leaf] = value
    return content


@pytest.fixture
def identity() -> RunIdentity:
    return RunIdentity(
        run_id=4242, lane="nightly-main", job_name="pytorch", workflow="Nightly", provider="github",
        url="https://ci.example/runs/4242", pytorch_version="2.13.0", pytorch_sha=SHA, device="spyre",
        stage=1, percent=5, started_at="2026-08-01T02:00:00.000+00:00",
        completed_at="2026-08-01T02:03:05.000+00:00",
    )  # fmt: skip


@pytest.fixture
def payload(identity: RunIdentity) -> dict[str, Any]:
    return told_of(identity, verdicts={"passed": 7, "failed": 2, "xfailed": 1}, exit_code=1)
