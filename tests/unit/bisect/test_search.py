"""The search with hands that know: what is an answer, what is not, and where it is left and gone on with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ci.bisect.answers import Answer, Said, said_by
from ci.bisect.asking import Finding, Limits, finding
from ci.bisect.record import Record, as_json, read_record, tally_of, write_record
from ci.bisect.search import FAULTS, timed
from ci.errors import DiskFullError
from ci.report.verdict import Verdict
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


@settings(max_examples=25)
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


def test_nothing_can_be_tried_at_all() -> None:
    record = record_of(5)
    searched(record, Knowing(broken=2, unbuilt=frozenset(range(6)))).run()
    assert set(record.barred) == set(range(6))
    assert not found(record).sure or found(record).kind == "range"
    assert record.tries == []


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
