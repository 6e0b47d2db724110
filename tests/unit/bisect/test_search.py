"""The search with hands that know: what is an answer, what is not, and where it is left and gone on with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.bisect.answers import Answer, Said, said_by
from ci.bisect.asking import Finding, Limits, finding
from ci.bisect.belief import Tally
from ci.bisect.record import Record, as_json, read_record, tally_of, write_record
from ci.bisect.search import FAULTS, LOST, MachineError, timed
from ci.core.errors import DiskFullError, UsageError
from ci.record.verdict import Verdict
from tests.unit.bisect.hands import Knowing, record_of, searched


def found(record: Record) -> Finding:
    return finding(record.belief(), Limits())


def saying(said: Said, message: str = "") -> Callable[[int], Sequence[Answer]]:
    return lambda _tries: [Answer(said=said, message=message)]


@pytest.mark.parametrize(("workers", "most"), [(1, 7), (4, 3)])
def test_the_planted_commit_is_found(workers: int, most: int) -> None:
    record, hands = record_of(63), Knowing(broken=40)
    searched(record, hands, workers=workers).run()
    assert (found(record).kind, found(record).first) == ("found", 40)
    assert len(record.rounds) <= most
    assert hands.put == len(record.rounds)
    assert not record.open


@given(st.integers(1, 20), st.integers(1, 5), st.data())
def test_whoever_broke_it_is_found_whatever_machines_do(last: int, workers: int, data: st.DataObject) -> None:
    broken = data.draw(st.integers(1, last))
    away = data.draw(st.dictionaries(st.integers(0, last), st.integers(1, FAULTS - 1)))
    record = record_of(last)
    searched(record, Knowing(broken=broken, away=away), workers=workers).run()
    assert (found(record).kind, found(record).first, record.barred) == ("found", broken, {})


@pytest.mark.parametrize("verdict", ["hardware", "infrastructure", "not_run", "of another version"])
def test_no_fault_of_a_machine_is_an_answer(verdict: str) -> None:
    assert said_by(verdict) is Said.FAULT
    assert tally_of(said_by(verdict)) is None


def test_too_little_memory_is_no_answer() -> None:
    assert said_by("failed", "oom") is Said.FAULT
    assert said_by("failed", "signal") is Said.FAILED


def test_every_verdict_says_something() -> None:
    said = {one: said_by(one.value) for one in Verdict}
    assert {one for one, what in said.items() if what is Said.FAILED} == {
        Verdict.FAILED, Verdict.FLAKY, Verdict.XFAILED
    }  # fmt: skip
    assert {one for one, what in said.items() if what is Said.PASSED} == {Verdict.PASSED, Verdict.XPASSED}


def test_a_machine_that_always_fails_at_a_commit_leaves_its_neighbours() -> None:
    record = record_of(63)
    odd = {31: saying(Said.FAULT, "the card went"), 32: lambda _tries: ()}
    searched(record, Knowing(broken=40, odd=odd)).run()
    assert found(record).first == 40
    assert record.barred[31] == "met 4 faults of machines, the last: the card went"
    assert all(one.position != 31 for one in record.tries)


def test_a_commit_that_cannot_be_built_is_tried_twice_and_passed_over() -> None:
    record, hands = record_of(63), Knowing(broken=40, unbuilt=frozenset({31}))
    searched(record, hands).run()
    assert found(record).first == 40
    assert hands.ready_times.count(31) == 2
    assert record.barred == {31: "cannot be built: no compiler takes it"}


def test_what_cannot_be_told_apart_is_a_range() -> None:
    record = record_of(63)
    searched(record, Knowing(broken=40, unbuilt=frozenset(range(36, 44)))).run()
    kept = found(record)
    assert (kept.kind, kept.first, kept.last, kept.sure) == ("range", 36, 44, True)


@pytest.mark.parametrize("said", [Said.SKIPPED, Said.UNCOLLECTABLE, Said.ABSENT])
@pytest.mark.parametrize("absent", ["skip", "good"])
def test_a_bad_end_that_cannot_be_tried_ends_the_search(said: Said, absent: str) -> None:
    # A slip in the test's name would have every commit written, and a history would name one of them.
    record = record_of(63, absent=absent)
    record.history = {63: Tally(failed=3)}
    hands = Knowing(broken=99, odd=dict.fromkeys(range(64), saying(said)))
    with pytest.raises(UsageError, match=r"the bad end 0{12} ") as caught:
        searched(record, hands).run()
    assert "--bad" in str(caught.value.remedy)
    assert (hands.ready_times, record.barred, record.known_good) == ([63], {}, -1)


def test_a_bad_end_that_cannot_be_built_ends_the_search() -> None:
    with pytest.raises(UsageError, match="no compiler takes it"):
        searched(record_of(5), Knowing(broken=2, unbuilt=frozenset(range(6)))).run()


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("first", [0, 64])
def test_a_machine_that_fails_everywhere_is_no_reason_to_pass_commits_over(workers: int, first: int) -> None:
    record, hands = record_of(64), Knowing(broken=40, away=dict.fromkeys(range(first, 64), 99))
    if not first:
        hands.away[64] = 99
    else:
        hands.away = dict.fromkeys(range(64), 99)
    with pytest.raises(MachineError, match="git went away") as caught:
        searched(record, hands, workers=workers).run()
    assert caught.value.exit_code == 3
    assert len(hands.ready_times) <= 1 + FAULTS * max(LOST, workers)
    assert (record.barred, record.result, record.open) == ({}, None, True)
    # It goes on when the machine is whole again.
    hands.away.clear()
    searched(record, hands, workers=workers).run()
    assert (found(record).kind, found(record).first) == ("found", 40)


def test_faults_between_answers_do_not_add_up() -> None:
    record, asked = record_of(63), list[int]()

    def now_and_then(tries: int) -> Sequence[Answer]:
        asked.append(tries)
        faulty = len(asked) % 2
        return [Answer(said=Said.FAULT if faulty else Said.PASSED if len(asked) % 4 else Said.FAILED)] * tries

    searched(record, Knowing(broken=40, odd={63: now_and_then}), limits=Limits(per_visit=90)).run()
    assert len(asked) > 2 * FAULTS
    assert record.barred == {}


def test_a_round_that_was_cut_off_when_all_was_done_is_not_the_end() -> None:
    whole = record_of(63)
    searched(whole, Knowing(broken=40, unbuilt=frozenset({31, 32}))).run()
    record = record_of(63)
    record.rounds, record.open, record.barred = [[63], [32]], True, {32: "cannot be built"}
    record.tries = [one for one in whole.tries if one.round == 1]
    searched(record, Knowing(broken=40, unbuilt=frozenset({31, 32}))).run()
    assert (found(record).kind, found(record).first) == ("found", 40)


@pytest.mark.parametrize("said", [Said.SKIPPED, Said.UNCOLLECTABLE, Said.ABSENT])
def test_a_test_that_cannot_be_tried_is_no_answer(said: Said) -> None:
    record = record_of(63)
    searched(record, Knowing(broken=40, odd={31: saying(said, "why")})).run()
    assert found(record).first == 40
    assert 31 in record.barred
    assert record.barred[31].endswith("why")


def test_a_test_that_is_not_there_yet_counts_as_good_where_that_is_said() -> None:
    young = {position: saying(Said.ABSENT) for position in range(20)}
    skipped, good = record_of(63), record_of(63, absent="good")
    searched(skipped, Knowing(broken=20, odd=young)).run()
    searched(good, Knowing(broken=20, odd=young)).run()
    assert (found(good).kind, found(good).first) == ("found", 20)
    assert good.known_good == 19
    assert found(skipped).kind != "found"


def test_a_search_that_is_left_goes_on_where_it_was(tmp_path: Path) -> None:
    whole = record_of(63)
    searched(whole, Knowing(broken=40)).run()
    for after in range(1, len(whole.tries), 3):
        record, hands = record_of(63), Knowing(broken=40)
        search = searched(record, hands)

        def leave(now: Record, after: int = after) -> None:
            write_record(tmp_path, now)
            if len(now.tries) >= after:
                raise KeyboardInterrupt

        search.save = leave
        with pytest.raises(KeyboardInterrupt):
            search.run()
        again = read_record(tmp_path)
        assert as_json(again)["tries"] == as_json(whole)["tries"][:after]
        searched(again, hands).run()
        assert (found(again).kind, found(again).first) == ("found", 40)
        assert len(again.rounds) == len(whole.rounds)
        # Of several tries in one go, those that were not told are made again.
        assert abs(len(again.tries) - len(whole.tries)) <= 4


def test_what_nobody_can_be_blamed_for_ends_the_search() -> None:
    search = searched(record_of(63), Knowing(broken=40), workers=4)

    def full(_: Record) -> None:
        if search.record.tries:
            raise DiskFullError("no space left")

    search.save = full
    with pytest.raises(DiskFullError, match="no space"):
        search.run()
    assert search.stop.is_set()


def test_who_ends_a_search_bars_no_commit() -> None:
    record, hands = record_of(63), Knowing(broken=40)
    search = searched(record, hands)

    def ended(_tries: int) -> Sequence[Answer]:
        search.stop.set()
        return ()

    hands.odd[63] = ended
    search.run()
    assert (record.barred, record.tries) == ({}, [])


def test_all_tries_are_used_up() -> None:
    record = record_of(63)
    searched(record, Knowing(broken=40), limits=Limits(in_all=9)).run()
    assert len(record.tries) == 9
    assert found(record).kind == "range"


def test_seconds_add_up_over_several_goes() -> None:
    record, now = record_of(3), iter([10.0, 15.0, 100.0, 102.0])
    for _ in range(2):
        with timed(record, lambda: next(now)):
            pass
    assert record.seconds == 7.0
