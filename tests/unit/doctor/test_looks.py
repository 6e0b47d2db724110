"""Looks side by side: what hangs, fails or is late costs its own line and no other's."""

from __future__ import annotations

import threading
import time

import pytest

from ci.core.errors import CommandError, SettingsError, UsageError
from ci.core.process import Ended
from ci.doctor.finding import Finding, Level, fault, lines, ok
from ci.doctor.looks import END_S, NAMES, TOTAL_S, Look, chosen, look_all
from ci.doctor.world import Processes


def look(name: str, *, limit_s: float = 30, late: Level = Level.FAULT) -> Look:
    return Look(name=name, do=lambda: [ok(name, "fine")], limit_s=limit_s, late=late)


def failing(name: str, error: Exception) -> Look:
    def fail() -> list[Finding]:
        raise error

    return Look(name=name, do=fail, limit_s=30)


def test_findings_stand_in_the_order_of_the_looks_whoever_ends_first() -> None:
    first = threading.Event()

    def waiting() -> list[Finding]:
        assert first.wait(30)
        return [ok("slow", "fine")]

    def quick() -> list[Finding]:
        first.set()
        return [ok("quick", "fine")]

    ended: list[str] = []
    account = look_all(
        [Look(name="slow", do=waiting, limit_s=60), Look(name="quick", do=quick, limit_s=60)],
        total_s=60,
        clock=time.monotonic,
        ended=ended.append,
    )
    assert list(account.found) == ["slow", "quick"]
    assert sorted(ended) == ["quick", "slow"]
    assert set(account.seconds) == {"slow", "quick"}


def test_what_hangs_is_told_and_left_behind() -> None:
    """Time is a list of moments: the look's own comes before the end of all."""
    hung = threading.Event()

    def hanging() -> list[Finding]:
        hung.wait(60)
        return []

    one = Look(name="hud", do=hanging, limit_s=0.05, late=Level.WARNING)
    account = look_all([one, look("disk")], total_s=60, clock=time.monotonic)
    (found,) = account.found["hud"]
    assert (found.level, found.said) == (Level.WARNING, "said nothing within 0.05 s")
    assert found.remedy.endswith("spyre-ci doctor --skip hud")
    assert account.found["disk"][0].level is Level.OK
    total = look_all([Look(name="hud", do=hanging, limit_s=60)], total_s=0.05, clock=time.monotonic)
    assert total.found["hud"][0].level is Level.FAULT
    assert [thread.daemon for thread in threading.enumerate() if thread.name == "look-hud"] == [True, True]
    hung.set()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SettingsError("is wrong", where="hud.port", remedy="mend it"), "hud.port: is wrong"),
        (ZeroDivisionError("by zero"), "this look is at fault itself: ZeroDivisionError: by zero"),
    ],
)
def test_a_look_that_fails_costs_no_other(error: Exception, words: str) -> None:
    account = look_all([failing("hud", error), look("disk")], total_s=60, clock=time.monotonic)
    assert account.found["hud"][0].level is Level.FAULT
    assert words in account.found["hud"][0].said
    assert account.found["disk"][0].level is Level.OK


def test_all_is_over_before_its_time() -> None:
    # Python's start, the looks, and ending what still runs.
    assert TOTAL_S + END_S + 9 <= 45


@pytest.mark.parametrize(
    ("only", "skip", "left"),
    [
        ([], [], list(NAMES)),
        (["disk", "python"], [], ["python", "disk"]),
        (["disk", "hud"], ["hud"], ["disk"]),
        (["registry"], [], ["engine"]),
    ],
)
def test_looks_are_chosen_by_name(only: list[str], skip: list[str], left: list[str]) -> None:
    assert chosen(only, skip) == left


@pytest.mark.parametrize(
    ("only", "skip", "words"),
    [
        (["dsk"], [], "did you mean disk"),
        ([], ["xyz"], "there is no look 'xyz'"),
        (["hud"], ["hud"], "nothing is left"),
    ],
)
def test_a_name_that_is_none_is_refused(only: list[str], skip: list[str], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        chosen(only, skip)
    assert words in str(caught.value)


def test_nothing_is_started_once_it_is_enough() -> None:
    processes = Processes(lambda *_, **__: Ended(code=0, stdout=b"", stderr=b""))
    assert processes.finish(["x"], env={}, limit_s=1).code == 0
    assert processes.end(1)
    with pytest.raises(CommandError, match="it is enough"):
        processes.finish(["x"], env={}, limit_s=1)


def test_what_runs_is_told_to_stop_and_waited_for() -> None:
    begun, told = threading.Event(), []

    def run(*_: object, stop: object = None, **__: object) -> Ended:
        begun.set()
        assert callable(stop)
        while not stop():
            time.sleep(0.001)
        told.append("stopped")
        return Ended(code=-15, stdout=b"", stderr=b"")

    processes = Processes(run)
    thread = threading.Thread(target=lambda: processes.finish(["x"], env={}, limit_s=60), daemon=True)
    thread.start()
    assert begun.wait(30)
    assert processes.end(30)
    assert told == ["stopped"]
    thread.join(30)


def test_one_that_does_not_stop_is_not_waited_for_for_ever() -> None:
    begun, over = threading.Event(), threading.Event()

    def run(*_: object, **__: object) -> Ended:
        begun.set()
        over.wait(30)
        return Ended(code=0, stdout=b"", stderr=b"")

    processes = Processes(run)
    thread = threading.Thread(target=lambda: processes.finish(["x"], env={}, limit_s=60), daemon=True)
    thread.start()
    assert begun.wait(30)
    assert not processes.end(0.01)
    over.set()
    thread.join(30)


def test_people_are_shown_a_remedy_below_each_line_and_the_totals() -> None:
    shown = [
        "".join(words[1:]) for words in lines([ok("disk", "room"), fault("torch", "##[group]gone", "pip x")])
    ]
    assert shown == [
        "ok       disk   room",
        "fault    torch  # #[group]gone",
        "                remedy: pip x",
        "1 fine, 0 warnings, 1 fault",
    ]
