"""A good nightly callback for every test to bend."""

from __future__ import annotations

from typing import Any

import pytest

from ci.hud.payload import RunIdentity, nightly_completed

SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def identity() -> RunIdentity:
    return RunIdentity(
        run_id=4242,
        run_attempt=1,
        lane="nightly-main",
        job_name="pytorch",
        workflow="Nightly",
        url="https://ci.example/runs/4242",
        provider="github",
        pytorch_version="2.13.0",
        pytorch_sha=SHA,
        device="spyre",
        stage=1,
        percent=5,
        started_at="2026-08-01T02:00:00.000+00:00",
        completed_at="2026-08-01T02:03:05.000+00:00",
    )


@pytest.fixture
def payload(identity: RunIdentity) -> dict[str, Any]:
    return nightly_completed(
        identity, run="r1", verdicts={"passed": 7, "failed": 2, "xfailed": 1}, exit_code=1
    )
