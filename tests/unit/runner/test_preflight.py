from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ci.runner import preflight
from ci.runner.preflight import Finding, until_free

BUSY = Finding(ok=False, seconds=1, message="busy", ras='"name":"RAS::VFIO::DeviceOpenFail"')
WELL = Finding(ok=True, seconds=1)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


def outcome(*findings: Finding, grace_s: float = 5) -> tuple[Finding, float]:
    clock, left = Clock(), list(findings)
    found = until_free(
        lambda: left.pop(0) if len(left) > 1 else left[0], grace_s=grace_s, clock=clock, pause=clock.pause
    )
    return found, clock.now


def test_a_card_that_a_killed_process_still_holds_is_waited_for() -> None:
    assert outcome(BUSY, BUSY, WELL) == (WELL, 1.0)


def test_a_card_that_stays_busy_is_not_waited_for_for_ever() -> None:
    assert outcome(BUSY, grace_s=5) == (BUSY, 5.0)


def test_a_card_that_is_sick_is_not_waited_for() -> None:
    sick = Finding(ok=False, seconds=1, message="wrong", ras='"name":"RAS::PCI::BusFence"')
    assert outcome(sick, WELL) == (sick, 0.0)


def test_a_card_that_a_check_has_open_for_ever_is_not_checked_once_more() -> None:
    stuck = replace(BUSY, ended=False)
    assert outcome(stuck, WELL) == (stuck, 0.0)


@pytest.mark.parametrize("ends", [True, False])
def test_a_finding_says_whether_the_process_of_the_check_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    monkeypatch.setattr(preflight, "start", lambda *_, **__: Hanging())
    monkeypatch.setattr(preflight, "gone", lambda _: ends)
    found = preflight.check(
        {"device": "cpu", "threads": 1},
        log=tmp_path / "0-1.log",
        method="fork",
        timeout_s=0,
        stopped=lambda: True,
    )
    assert (found.ok, found.ended) == (False, ends)
    assert ("cannot be ended" in found.message) == (not ends)


class Hanging:
    """A child in the kernel's uninterruptible sleep."""

    def poll(self) -> None:
        return None

    def dump_stacks(self) -> None: ...

    def kill(self) -> None: ...

    def last_lines(self, *, start: int) -> str:
        return ""[start:]
