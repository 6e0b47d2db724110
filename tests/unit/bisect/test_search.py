"""The search with an executor that knows: what is an answer, what is not, and how it resumes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.bisect.record import FILE, Record, read_record, write_record
from ci.bisect.search import FAULTS, LOST, MachineError
from ci.core.errors import BadFileError, DiskFullError, MissingInputError, UsageError
from ci.record.result import Result
from tests.unit.bisect.kit import Knowing, record_of, search_of


@pytest.mark.parametrize(("workers", "most"), [(1, 7), (4, 3)])
def test_the_planted_commit_is_found(workers: int, most: int) -> None:
    record = record_of(63)
    belief = search_of(record, Knowing(broken=40), workers=workers).run()
    assert belief.finding()[:2] == ("found", 40)
    assert record.rounds <= most


@given(st.integers(1, 20), st.integers(1, 5), st.data())
def test_the_commit_is_found_whatever_machines_do(last: int, workers: int, data: st.DataObject) -> None:
    broken = data.draw(st.integers(1, last))
    away = data.draw(st.dictionaries(st.integers(0, last), st.integers(1, FAULTS - 1)))
    record = record_of(last)
    belief = search_of(record, Knowing(broken, away=away), workers=workers).run()
    assert (belief.finding()[:2], record.skipped) == (("found", broken), {})


def test_a_commit_that_cannot_be_tested_is_skipped_and_leaves_a_range() -> None:
    record = record_of(63)
    executor = Knowing(broken=40, untestable=set(range(36, 44)))
    assert search_of(record, executor).run().finding()[:3] == ("range", 36, 44)
    whys = set(record.skipped.values())
    assert whys == {"cannot be built: no compiler takes it"}
    assert len(executor.prepared_at) == len(set(executor.prepared_at))


def test_a_bad_end_that_cannot_be_tested_ends_the_search() -> None:
    # A typing error in the test id would skip every commit.
    executor = Knowing(broken=99, untestable=set(range(64)))
    with pytest.raises(UsageError, match=r"the bad end 0{12} cannot be built") as caught:
        search_of(record_of(63), executor).run()
    assert "--bad" in str(caught.value.remedy)
    assert (executor.prepared_at, executor.stop.is_set(), executor.ended) == ([63], True, 1)


def test_a_commit_at_which_only_the_machine_fails_is_left_alone() -> None:
    record, executor = record_of(63), Knowing(broken=40, away={32: 99})
    assert search_of(record, executor).run().finding()[:2] == ("found", 40)
    assert executor.prepared_at.count(32) == FAULTS
    assert record.skipped == {}  # when the search resumes, it is tried again


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("first", [0, 64])
def test_a_machine_that_fails_everywhere_ends_the_search_and_it_resumes(workers: int, first: int) -> None:
    record, executor = record_of(64), Knowing(broken=40, away=dict.fromkeys(range(64 + (first == 0)), 99))
    with pytest.raises(MachineError, match="git went away") as caught:
        search_of(record, executor, workers=workers).run()
    assert caught.value.exit_code == 3
    assert len(executor.prepared_at) <= 1 + FAULTS * max(LOST, workers)
    assert record.skipped == {}
    assert search_of(record, Knowing(broken=40), workers=workers).run().finding()[:2] == ("found", 40)


def test_an_interrupted_search_resumes_where_it_was(tmp_path: Path) -> None:
    whole = record_of(63)
    search_of(whole, Knowing(broken=40)).run()
    for after in range(1, len(whole.tries), 3):
        record = record_of(63)
        search = search_of(record, Knowing(broken=40))

        def leave(record: Record = record, after: int = after) -> None:
            write_record(tmp_path, record)
            if len(record.tries) >= after:
                raise KeyboardInterrupt

        search.save = leave
        with pytest.raises(KeyboardInterrupt):
            search.run()
        again = read_record(tmp_path)
        assert (again, again.tries) == (record, whole.tries[:after])
        assert search_of(again, Knowing(broken=40)).run().finding()[:2] == ("found", 40)
        assert len(again.tries) <= len(whole.tries) + 4


def test_a_full_disk_ends_the_search_and_a_try_that_was_ended_is_no_answer() -> None:
    search = search_of(record_of(63), Knowing(broken=40))

    def full() -> None:
        raise DiskFullError("no space left")

    search.save = full
    with pytest.raises(MachineError, match="no space"):
        search.run()
    record, executor = record_of(63), Knowing(broken=40)

    class Ended(Knowing):
        def attempt(self, position: int) -> Result:  # noqa: ARG002  # as every executor
            self.stop.set()
            raise DiskFullError("killed")

    executor = Ended(broken=40)
    search_of(record, executor)._try_commit(63)
    assert (record.tries, record.skipped) == ([], {})


def test_all_tries_are_used_up() -> None:
    record = record_of(63)
    assert search_of(record, Knowing(broken=40), tries_in_all=9).run().finding()[0] == "range"
    assert len(record.tries) == 9


@pytest.mark.parametrize(
    "damage",
    [{"commits": ["a"]}, {"commits": None}, {"tries": [{"position": 1}]}, {"skipped": {"77": 3}}, {"test": 3},
     {"tries": [{"round": 1, "position": 99, "passed": True}]}, {"schema": "other/1"}],
)  # fmt: skip
def test_a_damaged_record_is_refused_with_a_remedy(tmp_path: Path, damage: dict[str, Any]) -> None:
    with pytest.raises(MissingInputError):
        read_record(tmp_path)
    write_record(tmp_path, record_of(4))
    content = json.loads((tmp_path / FILE).read_text(encoding="utf-8"))
    (tmp_path / FILE).write_text(json.dumps(content | damage), encoding="utf-8")
    with pytest.raises(BadFileError) as caught:
        read_record(tmp_path)
    assert caught.value.where == str(tmp_path / FILE)
    assert caught.value.remedy
