"""The worker with a clock that is moved by hand, and runs that are on paper."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import CommandError, SpyreCiError
from ci.lanes import state
from ci.lanes.noted import Attempt, Slot, history
from ci.lanes.order import Order, Seen, Standing
from ci.lanes.state import StateAwayError
from ci.lanes.store import Store
from ci.lanes.turn import Known, waits
from ci.lanes.worker import LaneBusyError
from ci.record.identity import write_identity
from tests.lane_settings import lane
from tests.pipeline_runs import identity_of
from tests.unit.lanes.world import FAILED, LOST, NOON, PASSED, KilledError, World, elsewhere, without

HOURLY = "0 * * * *"


class AwayError(SpyreCiError):
    exit_code = 3


@pytest.fixture(autouse=True)
def _no_power_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for the disk."""
    monkeypatch.setattr(state, "SYNCHRONOUS", "OFF")


def runs(world: World, name: str | None = None) -> list[tuple[Slot, list[Attempt]]]:
    """The oldest first."""
    return list(reversed(history(world.store.path, lane=name, most=10_000)))


def test_the_time_of_the_next_try_is_noted_as_the_list_has_it_and_survives_a_restart(tmp_path: Path) -> None:
    once = lane({"after_end": {"min": 9, "max": 9}}, retries={"most": 2, "first_s": 1000, "jitter": 0.3})
    world = World(tmp_path, {"once": once})
    world.local.ends = lambda _: (5, LOST)
    world.work(0.1)
    ((slot, (attempt,)),) = runs(world)
    assert attempt.ended_at is not None
    first = waits(once.retries, seed=0, key=f"once-{slot.due}")[0]
    assert slot.again_at == pytest.approx(attempt.ended_at + first, abs=1e-6)
    world.work(0.1)
    assert len(world.local.began) == 1
    world.work(0.5)
    assert len(world.local.began) == 2
    assert runs(world)[0][1][1].begun_at >= attempt.ended_at + first


def test_every_line_names_its_lane(tmp_path: Path) -> None:
    world = World(tmp_path, {"bad": lane(HOURLY), "good": lane(HOURLY), "off": lane(HOURLY, enabled=False)})
    world.local.ends = lambda order: (60, LOST if order.lane == "bad" else PASSED)
    world.work(2.5)
    assert {line.split(": ")[0] for line in world.said} == {"bad", "good", "off", "worker"}
    assert [line for line in world.said if line.startswith("off")] == ["off: is disabled"]


def test_an_executor_that_has_no_use_for_a_lane_ends_that_attempt_and_no_other(tmp_path: Path) -> None:
    world = World(tmp_path, {"far": elsewhere(lane(HOURLY, retries={"most": 0})), "good": lane(HOURLY)})
    world.far.away = CommandError("there is no such job", where="jenkins")
    world.work(1.5)
    ((slot, (attempt,)),) = runs(world, "far")
    assert (slot.standing, attempt.said) == (Standing.INCOMPLETE, "jenkins: there is no such job")
    assert runs(world, "good")[0][0].standing is Standing.PASSED


def test_a_kind_that_nobody_carries_out_here_is_told(tmp_path: Path) -> None:
    world = World(tmp_path, {"far": elsewhere(lane(HOURLY, retries={"most": 0}))})
    world.work(1.5, executors={"local": world.local})
    assert runs(world)[0][1][0].said == "there is no executor of kind openshift here"


def test_who_is_away_for_a_while_is_asked_again_and_told_of_once(tmp_path: Path) -> None:
    world = World(tmp_path, {"far": elsewhere(lane(HOURLY))})
    world.far.away = AwayError("cannot be reached", where="jenkins")
    world.at[world.mono + 5000] = lambda: setattr(world.far, "away", None)
    world.work(1.9)
    ((slot, (attempt,)),) = runs(world)
    assert (slot.standing, attempt.number) == (Standing.PASSED, 1)
    assert sum("cannot be reached" in line for line in world.said) == 1


def test_who_stays_away_is_given_up_some_time_after_the_limit(tmp_path: Path) -> None:
    world = World(tmp_path, {"far": elsewhere(lane("0 13 * * *", time_limit_s=1800, retries={"most": 0}))})
    world.at[world.mono + 3700] = lambda: setattr(world.far, "away", AwayError("cannot be reached"))
    world.far.ends = lambda _: (1e9, PASSED)
    world.work(3)
    ((slot, (attempt,)),) = runs(world)
    assert slot.standing is Standing.TIMED_OUT
    assert attempt.said.endswith("could not be asked for: cannot be reached")
    assert attempt.ended_at is not None
    assert 1800 + 900 <= attempt.ended_at - attempt.begun_at < 1800 + 930


def test_a_run_over_its_limit_is_told_to_end_and_tried_again(tmp_path: Path) -> None:
    world = World(
        tmp_path, {"long": lane("0 13 * * *", time_limit_s=600, retries={"most": 1, "first_s": 60})}
    )
    world.local.ends = lambda order: (1e9 if order.attempt == 1 else 60, PASSED)
    world.work(3)
    ((slot, (first, second)),) = runs(world)
    assert (first.standing, first.asked, first.said) == (
        Standing.TIMED_OUT,
        "limit",
        "took longer than its 600 s",
    )
    assert (slot.standing, second.standing) == (Standing.PASSED, Standing.PASSED)


def test_a_limit_holds_across_a_restart(tmp_path: Path) -> None:
    world = World(tmp_path, {"long": elsewhere(lane("0 13 * * *", time_limit_s=7200, retries={"most": 0}))})
    world.far.ends = lambda _: (1e9, PASSED)
    for _ in range(7):
        world.work(0.5)
    ((_, (attempt,)),) = runs(world)
    assert attempt.ended_at is not None
    assert 7200 <= attempt.ended_at - attempt.begun_at < 7230


def test_what_runs_elsewhere_and_does_not_end_is_given_up(tmp_path: Path) -> None:
    world = World(tmp_path, {"far": elsewhere(lane("0 13 * * *", time_limit_s=600, retries={"most": 0}))})
    world.far.ends, world.far.obeys = (lambda _: (1e9, PASSED)), False
    world.work(2)
    ((slot, (attempt,)),) = runs(world)
    assert slot.standing is Standing.TIMED_OUT
    assert "it did not end when it was told to" in attempt.said


def test_a_clock_that_jumps_ends_no_run_and_repeats_none(tmp_path: Path) -> None:
    world = World(tmp_path, {"hourly": lane(HOURLY, time_limit_s=7200)})
    world.local.ends = lambda _: (1800, PASSED)

    def jump(seconds: float) -> None:
        world.now += seconds

    world.at[world.mono + 4000] = lambda: jump(30 * 24 * 3600)
    world.at[world.mono + 9000] = lambda: jump(-60 * 24 * 3600)
    world.work(8)
    assert len(world.local.began) == len(set(world.local.began))
    assert not world.local.cancelled
    found = runs(world)
    assert {slot.standing for slot, tries in found if tries} == {Standing.PASSED}
    # It runs on after each jump.
    assert len(world.local.began) >= 6


def test_a_lane_that_left_the_settings_is_seen_to_its_end(tmp_path: Path) -> None:
    world = World(tmp_path, {"old": elsewhere(lane(HOURLY))})
    world.far.ends = lambda _: (3600, LOST)
    world.work(1.1)
    world.lanes = {"new": lane(HOURLY)}
    world.work(2)
    ((slot, (attempt,)),) = runs(world, "old")
    assert (slot.state, attempt.standing) == ("ended", Standing.INCOMPLETE)
    assert "old: is no longer in the settings" in world.said
    assert len(runs(world, "new")) == 2


def test_what_had_not_begun_when_its_lane_left_the_settings_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, {"old": lane(HOURLY)})

    def die(order: Order) -> str:
        raise KilledError(order.id)

    with monkeypatch.context() as patched:
        patched.setattr(world.local, "start", die)
        with pytest.raises(KilledError):
            world.work(1.5)
    world.lanes = {"new": lane(HOURLY)}
    world.work(0.5)
    ((slot, (attempt,)),) = runs(world, "old")
    assert (slot.state, attempt.said) == ("ended", "its lane left the settings before it began")
    assert world.local.began == {}


def test_a_state_that_cannot_be_used_for_a_while_is_waited_for_and_told_of_once(tmp_path: Path) -> None:
    world = World(tmp_path, {"hourly": lane(HOURLY)})

    class Full(Store):
        def known(self, now: float) -> dict[str, Known]:
            if 3000 < now - NOON < 8000:
                raise StateAwayError(
                    "the state of lanes cannot be used: database or disk is full", where="there"
                )
            return super().known(now)

    world.store = Full(world.store.path)
    world.work(3.5)
    assert [(slot.state, slot.due - int(NOON)) for slot, _ in runs(world)] == [
        ("skipped", 3600), ("ended", 7200), ("ended", 10800),
    ]  # fmt: skip
    assert sum("database or disk is full; it is tried again" in line for line in world.said) == 1


def test_once_a_state_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    world = World(tmp_path, {"hourly": lane(HOURLY)})

    class Full(Store):
        def known(self, now: float) -> dict[str, Known]:  # noqa: ARG002  # as its parent's
            raise StateAwayError("the state of lanes cannot be used: database or disk is full")

    world.store = Full(world.store.path)
    with pytest.raises(StateAwayError):
        world.once()


def test_on_a_full_disk_a_run_is_told_to_end_at_its_limit_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, {"far": elsewhere(lane("0 13 * * *", time_limit_s=600, retries={"most": 0}))})
    world.far.ends = lambda _: (1e9, PASSED)
    full_from = world.mono + 3700
    asked = Store.asked

    def note(store: Store, attempt: Attempt, why: str) -> None:
        if full_from < world.mono < full_from + 3000:
            raise StateAwayError("the state of lanes cannot be used: database or disk is full")
        asked(store, attempt, why)

    monkeypatch.setattr(Store, "asked", note)
    world.work(3)
    ((slot, (attempt,)),) = runs(world)
    assert (slot.standing, attempt.said) == (Standing.TIMED_OUT, "took longer than its 600 s")
    assert attempt.ended_at is not None
    assert attempt.ended_at - attempt.begun_at < 700


def test_on_a_full_disk_runs_are_told_to_end_with_the_worker_and_handed_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, {"one": lane(HOURLY), "two": lane(HOURLY)})
    world.local.ends = lambda _: (1200, PASSED)
    begun = world.mono

    def away(*_: object) -> list[Attempt]:
        raise StateAwayError("the state of lanes cannot be used: database or disk is full")

    # As it is told to end, the state can be neither written nor read; later it can.
    world.at[begun + 1.05 * 3600] = lambda: (
        monkeypatch.setattr(Store, "asked", away), monkeypatch.setattr(Store, "on_their_way", away)
    )  # fmt: skip
    world.at[begun + 1.1 * 3600 + 60] = monkeypatch.undo
    world.work(1.1)
    assert len(world.local.cancelled) == 2
    assert [(one.handed_back, one.said) for _, (one,) in runs(world)] == [
        (True, "ended with the worker, and was handed back")
    ] * 2


def test_a_worker_whose_disk_stays_full_tells_its_runs_and_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, {"one": lane(HOURLY), "two": lane(HOURLY)}, ending_s=10)
    world.local.ends = lambda _: (1200, PASSED)

    def away(*_: object) -> list[Attempt]:
        raise StateAwayError("the state of lanes cannot be used: database or disk is full")

    def cancel(order: Order, reference: str) -> None:  # noqa: ARG001  # as an executor has it
        if order.lane == "one":
            raise OSError(28, "No space left on device")
        world.local.cancelled.add(order.id)

    monkeypatch.setattr(world.local, "cancel", cancel)
    world.at[world.mono + 1.05 * 3600] = lambda: monkeypatch.setattr(Store, "on_their_way", away)
    world.work(1.1)
    # One that cannot be told does not keep the others from being told.
    assert [one.partition("-")[0] for one in world.local.cancelled] == ["two"]
    away_said = "worker: the state of lanes cannot be used: database or disk is full; it is tried again"
    assert away_said in world.said
    assert sum(line.endswith("is left to the next worker") for line in world.said) == 2


def test_what_a_far_run_left_is_fetched_until_it_came_and_then_says_how_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, {"far": elsewhere(lane(HOURLY))})
    brought: list[float] = []

    def fetch(order: Order, reference: str) -> None:  # noqa: ARG001  # as an executor has it
        if world.now < NOON + 5000:
            raise AwayError("its artifacts cannot be fetched now")
        brought.append(world.now)
        world.far.ends = lambda _: (60, FAILED)

    monkeypatch.setattr(world.far, "fetch", fetch)
    world.work(1.9)
    ((slot, (attempt,)),) = runs(world)
    assert (slot.standing, attempt.exit_code, len(brought)) == (Standing.FAILED, 1, 1)


def test_what_cannot_be_fetched_for_good_is_said_and_the_end_stays_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, {"far": elsewhere(lane(HOURLY, time_limit_s=600))})

    def fetch(order: Order, reference: str) -> None:  # noqa: ARG001  # as an executor has it
        raise CommandError("they were deleted")

    monkeypatch.setattr(world.far, "fetch", fetch)
    world.work(1.9)
    ((slot, (attempt,)),) = runs(world)
    assert (slot.standing, attempt.said) == (
        Standing.PASSED, "what it left cannot be brought back: they were deleted",
    )  # fmt: skip
    assert attempt.ended_at is not None
    assert attempt.ended_at - attempt.begun_at >= 600 + 900


def test_a_refused_question_about_a_run_under_way_is_not_its_end(tmp_path: Path) -> None:
    world = World(tmp_path, {"far": elsewhere(lane(HOURLY, time_limit_s=3000))})
    world.far.ends = lambda _: (1800, PASSED)
    begin = world.far.start

    def start(order: Order) -> str:
        # The token is taken back once it runs, and given again later.
        reference = begin(order)
        world.far.away = CommandError("Jenkins answers 401", where="job nightly")
        return reference

    world.far.start = start  # type: ignore[method-assign]  # the same, with a refusal behind it
    world.at[world.mono + 3600 + 2400] = lambda: setattr(world.far, "away", None)
    world.work(1.9)
    ((slot, (attempt,)),) = runs(world)
    assert (slot.standing, attempt.number, len(world.far.began)) == (Standing.PASSED, 1, 1)
    assert sum("Jenkins answers 401" in line for line in world.said) == 1


def test_who_is_refused_for_ever_is_given_up_some_time_after_the_limit(tmp_path: Path) -> None:
    world = World(tmp_path, {"far": elsewhere(lane("0 13 * * *", time_limit_s=1800, retries={"most": 0}))})
    world.at[world.mono + 3700] = lambda: setattr(world.far, "away", CommandError("Jenkins answers 403"))
    world.far.ends = lambda _: (1e9, PASSED)
    world.work(3)
    ((slot, (attempt,)),) = runs(world)
    assert slot.standing is Standing.TIMED_OUT
    assert attempt.ended_at is not None
    assert 1800 + 900 <= attempt.ended_at - attempt.begun_at < 1800 + 930


def test_a_cadence_that_changed_is_said_and_holds(tmp_path: Path) -> None:
    world = World(tmp_path, {"one": lane(HOURLY)})
    world.work(1.5)
    world.lanes = {"one": lane("30 */2 * * *")}
    world.work(3)
    assert "one: its cadence was cron 0 * * * *, UTC, and is cron 30 */2 * * *, UTC" in world.said
    assert [slot.due - int(NOON) for slot, _ in runs(world)] == [3600, 9000]


def test_a_lane_that_is_not_chosen_is_left_as_it_is(tmp_path: Path) -> None:
    one = lane(HOURLY, retries={"most": 1, "first_s": 3000})
    world = World(tmp_path, {"one": one, "two": lane(HOURLY)})
    world.local.ends = lambda order: (60, LOST if order.lane == "one" else PASSED)
    world.work(1.2)
    world.work(2, chosen=frozenset({"two"}))
    assert [slot.state for slot, _ in runs(world, "one")] == ["open"]
    assert len(runs(world, "two")) == 3


def test_once_sees_what_is_due_to_its_end_and_ends_by_what_came_of_it(tmp_path: Path) -> None:
    first = {"after_end": {"min": 1, "max": 1}}
    lanes = {
        "good": lane(first),
        "lost": lane(first, retries={"most": 1, "first_s": 60}),
        "later": lane(HOURLY),
    }
    world = World(tmp_path, lanes)
    world.local.ends = lambda order: (60, LOST if order.lane == "lost" else PASSED)
    assert world.once().exit_code == 3
    assert sorted(slot.lane for slot, _ in runs(world)) == ["good", "lost"]
    assert len(runs(world, "lost")[0][1]) == 2
    world.local.ends = lambda order: (60, FAILED if order.lane == "lost" else PASSED)
    world.now += 3700
    assert world.once().exit_code == 1
    world.local.ends = lambda _: (60, PASSED)
    world.now += 3700
    assert world.once().exit_code == 0


def test_once_begins_no_time_that_comes_after_its_first_look(tmp_path: Path) -> None:
    world = World(tmp_path, {"one": lane("* * * * *")}, poll_s=15)
    world.local.ends = lambda _: (58, PASSED)
    world.work(0.001)  # the lane is known, and has missed nothing
    for number in range(1, 4):
        world.now += 60
        world.once()
        assert len(world.local.began) == number


def test_once_begins_what_is_due_and_waits_for_room(tmp_path: Path) -> None:
    first = {"after_end": {"min": 1, "max": 1}}
    lanes = {name: lane(first) for name in ("a", "b", "c")}
    world = World(tmp_path, lanes, at_once=1)
    world.local.ends = lambda order: (5000, FAILED if order.lane == "c" else PASSED)
    assert world.once().exit_code == 1
    # Though the first one is due again before the last one has ended.
    assert [one.partition("-")[0] for one in world.local.began] == ["a", "b", "c"]


def test_by_hand_a_lane_is_begun_at_once_and_nothing_else(tmp_path: Path) -> None:
    retries = {"most": 1, "first_s": 60, "jitter": 0}
    world = World(
        tmp_path,
        {"one": lane("0 3 * * *", retries=retries), "two": lane({"after_end": {"min": 1, "max": 1}})},
    )
    world.local.ends = lambda order: (60, LOST if order.attempt == 1 else PASSED)
    chosen = frozenset({"one"})
    assert world.once(chosen=chosen, by_hand=True).exit_code == 0
    ((slot, tries),) = runs(world)
    assert (slot.lane, slot.due, slot.why, len(tries)) == ("one", int(NOON), "asked for by hand", 2)
    # At the same time again, by a clock that went back: another run.
    world.now = NOON
    world.once(chosen=chosen, by_hand=True)
    assert [slot.due - int(NOON) for slot, _ in runs(world)] == [0, 1]


def test_by_hand_a_lane_far_away_is_begun_too_and_one_whose_run_is_on_is_not(tmp_path: Path) -> None:
    world = World(tmp_path, {"far": elsewhere(lane(HOURLY)), "one": lane(HOURLY)})
    world.far.ends = lambda _: (4000, PASSED)
    world.work(1.1)
    with pytest.raises(LaneBusyError) as caught:
        world.once(by_hand=True)
    assert caught.value.exit_code == 3
    assert caught.value.what == "lane far has a run, due 2026-11-23 13:00 UTC, that has not ended"
    assert len(world.far.began) == len(world.local.began) == 1
    world.now += 4000
    world.mono += 4000
    world.once(by_hand=True)
    assert len(world.far.began) == len(world.local.began) == 2


def test_a_run_that_is_told_to_end_with_the_worker_is_handed_back_and_is_no_failure(tmp_path: Path) -> None:
    world = World(tmp_path, {"one": lane(HOURLY, retries={"most": 0})})
    world.local.ends = lambda _: (1200, PASSED)
    world.work(1.1)
    ((slot, (attempt,)),) = runs(world)
    assert (slot.state, attempt.handed_back, attempt.exit_code) == ("open", True, 130)
    assert any("was handed back); the next worker begins it again" in line for line in world.said)
    world.work(0.5)
    ((slot, (_, second)),) = runs(world)
    assert (slot.standing, second.number) == (Standing.PASSED, 2)
    # At once, and not at its next time.
    assert second.begun_at - NOON == pytest.approx(3960, abs=9)


def test_an_attempt_that_was_handed_back_takes_no_try_from_its_run(tmp_path: Path) -> None:
    world = World(tmp_path, {"one": lane(HOURLY, retries={"most": 1, "first_s": 60, "jitter": 0})})
    world.local.ends = lambda _: (600, LOST)
    for _ in range(3):
        world.work(1.05)
    world.work(0.9)
    tries = runs(world)[0][1]
    assert [one.handed_back for one in tries if not one.handed_back] == [False, False]
    assert any(one.handed_back for one in tries)
    assert any("try 1 of 2: the one before was handed back" in line for line in world.said)


def test_a_run_that_ends_by_itself_while_the_worker_ends_is_no_case_for_the_next_one(tmp_path: Path) -> None:
    world = World(tmp_path, {"one": lane(HOURLY)}, ending_s=120)
    world.local.ends, world.local.obeys = (lambda _: (3600 * 0.1 + 30, PASSED)), False
    world.work(1.1)
    ((slot, (attempt,)),) = runs(world)
    assert (slot.standing, attempt.handed_back, attempt.asked) == (Standing.PASSED, False, "ending")


def test_what_runs_elsewhere_goes_on_when_the_worker_ends(tmp_path: Path) -> None:
    world = World(tmp_path, {"far": elsewhere(lane(HOURLY))})
    world.far.ends = lambda _: (1200, PASSED)
    world.work(1.1)
    assert not world.far.cancelled
    assert world.said[-1] == "far: attempt 1 of the run due 2026-11-23 13:00 UTC is left to the next worker"
    world.work(0.5)
    ((slot, attempts),) = runs(world)
    assert (slot.standing, len(attempts)) == (Standing.PASSED, 1)


def test_a_second_signal_waits_for_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, {"one": lane(HOURLY)}, ending_s=600)
    world.local.ends, world.local.obeys = (lambda _: (1e9, PASSED)), False
    begun, world.insists = world.mono, True
    world.work(1.1)
    assert world.mono - begun < 1.1 * 3600 + 10
    assert world.said[-1].endswith("is left to the next worker")
    # Its end was asked for by a worker that is gone; the next one knows what for.
    world.local.obeys = True
    world.insists = False
    world.work(0.001)
    ((_, (first, second)),) = runs(world)
    assert (first.handed_back, second.number) == (True, 2)


@given(st.integers(1, 80), st.booleans())
def test_a_worker_that_dies_at_any_call_is_followed_by_one_that_repeats_nothing_and_forgets_nothing(
    call: int, after: bool
) -> None:
    def ends(order: Order) -> tuple[float, Seen]:
        return 900, LOST if order.attempt == 1 and order.lane == "two" else PASSED

    lanes = {
        "far": elsewhere(lane(HOURLY)),
        "two": lane(HOURLY, retries={"most": 2, "first_s": 60}),
        "end": lane({"after_end": {"min": 1, "max": 2}}),
    }
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), lanes, poll_s=300)
        world.local.ends = world.far.ends = ends
        # It dies on its way through the first two hours; the executor refuses to begin anything twice.
        assert world.die(call, after=after)
        assert world.mono < 1000 + 2 * 3600
        world.work(4)
        world.local.ends = world.far.ends = lambda _: (0, PASSED)
        world.work(0.2)
        found = runs(world)
        assert [slot.due - int(NOON) for slot, _ in runs(world, "far")][:3] == [3600, 7200, 10800]
        noted = {f"{one.lane}-{one.due}-{one.number}" for _, tries in found for one in tries}
        assert noted == {*world.local.began, *world.far.began}
        assert {slot.state for slot, _ in found} <= {"ended", "skipped"}


def test_what_is_old_goes_with_its_folder_but_not_the_last_of_a_lane(tmp_path: Path) -> None:
    world = World(tmp_path, {"hourly": lane(HOURLY)}, keep_days=1, poll_s=300)
    world.work(60)
    found = runs(world)
    assert len(found) < 60
    assert {one.name for one in (tmp_path / "hourly").iterdir()} == {f"{slot.due}-1" for slot, _ in found}
    world.now += 400 * 24 * 3600
    world.work(1)
    assert len([slot for slot, _ in runs(world) if slot.state == "ended"]) >= 19


@pytest.mark.parametrize(
    "error", [OverflowError("too large"), RuntimeError("odd \ud800"), OSError("no file's")]
)
def test_whatever_one_lane_raises_ends_that_attempt_and_no_worker(tmp_path: Path, error: Exception) -> None:
    world = World(tmp_path, {"far": elsewhere(lane(HOURLY, retries={"most": 0})), "good": lane(HOURLY)})
    world.far.away = error
    world.work(1.5)
    ((slot, (attempt,)),) = runs(world, "far")
    told = f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace").decode()
    assert (slot.standing, attempt.exit_code, attempt.said) == (Standing.INCOMPLETE, 3, told)
    assert runs(world, "good")[0][0].standing is Standing.PASSED


def test_runs_of_a_cluster_are_forgotten_with_their_attempts_and_no_others(tmp_path: Path) -> None:
    there = {"openshift": {"spec": "tests.yaml"}}
    world = World(tmp_path, {"far": without(lane(HOURLY), where=there)}, keep_days=1)
    folders = [tmp_path / "runs" / f"far-{int(NOON) + hour * 3600}-1" for hour in range(1, 40)]
    for folder in folders:
        # Two whose content is of other runs.
        write_identity(folder, identity_of(folder.name if folder not in folders[2:4] else "mine"))
    world.work(39.5, executors={"openshift": world.far})
    world.now += 3 * 24 * 3600
    world.once(executors={"openshift": world.far})
    left = [folder for folder in folders if folder.exists()]
    assert left[:2] == folders[2:4]
    assert len(left) == 2 + 20
