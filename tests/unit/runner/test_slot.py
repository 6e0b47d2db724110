"""What a slot makes of its journal where its card failed."""

from __future__ import annotations

from dataclasses import asdict
from typing import cast

import pytest

from ci.record import events
from ci.runner.channel import Why
from ci.runner.inventory import Card
from ci.runner.preflight import Finding
from ci.runner.scheduler import Job
from ci.runner.slot import WorkerSlot
from ci.runner.worker_process import WorkerProcess
from test_selection.pieces import Piece

SICK = Finding(ok=False, seconds=31.0, message="took longer than 30 s")
STUCK = Finding(ok=False, seconds=61.0, message="took longer than 30 s; it cannot be ended", ended=False)

PIECE = Piece(file="a.py", ids=("a",), expected_s=1.0)


def slot() -> WorkerSlot:
    return WorkerSlot(
        cards=[Card(name="spyre:0", environment={})], link=cast("WorkerProcess", None), shard=0, heard=0.0
    )


def check(found: Finding, why: str) -> events.CardCheck:
    return events.CardCheck(why=why, **asdict(found))


@pytest.mark.parametrize("why", ["order", "crash"])
def test_a_card_that_a_check_has_open_for_ever_is_at_fault_and_stuck(why: str) -> None:
    one = slot()
    one.take(check(STUCK, why))
    assert (one.fault, one.stuck) == (STUCK.message, True)
    # What the crash says after it changes nothing.
    one.take(events.Crash(id="a", cause="hardware", message="the card failed its check after it"))
    assert one.stuck


def test_a_check_that_fails_and_ends_leaves_nothing_behind() -> None:
    one = slot()
    one.take(check(SICK, "crash"))
    assert (one.fault, one.stuck) == (None, False)
    one.take(check(SICK, "order"))
    assert (one.fault, one.stuck) == (SICK.message, False)
    assert not one.stuck


@pytest.mark.parametrize(("why", "found"), [("retry", ["a"]), ("plan", []), ("stolen", [])])
def test_a_retry_that_is_not_run_is_told_from_what_was_never_begun(why: Why, found: list[str]) -> None:
    one = slot()
    event = events.NotRun(ids=["a", "b"], message="setting up a.py: no such file")
    assert one.take(event).in_vain == {}
    one.job = Job(piece=PIECE, of=0, why=why, attempt=2)
    assert list(one.take(event).in_vain) == found
    assert one.take(events.NoRetry(ids=["a"], message="no other card")).in_vain == {}
