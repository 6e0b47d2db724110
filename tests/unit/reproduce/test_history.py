from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ci.record.journal import Journal
from ci.record.verdict import Verdict
from ci.reproduce.history import chosen, tries_of
from tests.journal_rows import events_from

START: dict[str, Any] = {
    "e": "shard_start", "card": "spyre:0", "back_end": "b", "torch": "2.13.0", "python": "3.12.1", "seed": 7,
    "image": "", "environ": {"OMP_NUM_THREADS": "1"}, "threads": 2,
}  # fmt: skip
GROUP = {"e": "group_start", "file": "a.py"}
EVENTS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(["e", "id", "seed", "try", "as", "outcome", "cause", "message", "environ", "threads"]),
    st.sampled_from(
        ["start", "end", "crash", "shard_start", "group_start", "a", None, 3, -1, [], {}, {"A": "b"}, 2**70]
    ),
)


def journal(*events: dict[str, Any]) -> Journal:
    return Journal(path=Path("0-1.jsonl"), shard=0, attempt=1, events=events_from(events))


def start(name: str, **more: Any) -> dict[str, Any]:
    return {"e": "start", "id": name, **more}


def end(name: str, outcome: str = "passed", **more: Any) -> dict[str, Any]:
    return {"e": "end", "id": name, "outcome": outcome, **more}


def test_a_try_is_told_with_its_seed_its_place_and_what_ran_before_it() -> None:
    (found,) = tries_of(
        "c",
        [
            journal(
                START, GROUP, start("z"), end("z"), GROUP, start("a"), end("a"),
                start("b", **{"as": 3}), end("b"), start("c", seed=5), end("c", "failed", message="x"),
            )
        ],
    )  # fmt: skip
    assert (found.number, found.seed, found.before) == (1, 5, (("a", 1), ("b", 3)))
    assert (found.end.verdict, found.end.message, found.end.bad) == (Verdict.FAILED, "x", True)
    assert (found.place.card, found.place.threads, found.place.run_seed) == ("spyre:0", 2, 7)
    assert found.place.environ == {"OMP_NUM_THREADS": "1"}


def test_a_crash_is_the_end_of_its_process() -> None:
    crash = {"e": "crash", "id": "a", "cause": "signal", "message": "SIGSEGV"}
    crashed, after = tries_of(
        "a", [journal(START, GROUP, start("a"), crash, GROUP, start("a", **{"try": 2}))]
    )
    assert (crashed.end.cause, crashed.end.verdict) == ("signal", Verdict.FAILED)
    assert (after.number, after.before, after.end.verdict) == (2, (), Verdict.INFRASTRUCTURE)


def test_a_card_s_fault_and_a_lost_worker_are_told_apart() -> None:
    fault = {"e": "crash", "id": "a", "cause": "hardware", "message": "reset"}
    lost = {"e": "worker_lost", "id": "a", "message": "killed"}
    found = tries_of("a", [journal(START, start("a"), fault, start("a"), lost)])
    assert [one.end.verdict for one in found] == [Verdict.HARDWARE, Verdict.INFRASTRUCTURE]


def test_the_last_that_failed_is_brought_back_unless_another_is_asked_for() -> None:
    found = tries_of(
        "a",
        [journal(START, start("a"), end("a", "failed"), start("a", **{"try": 2}), end("a"))],
    )
    one, two = chosen(found, 0), chosen(found, 2)
    assert one is not None
    assert two is not None
    assert (one.number, two.number) == (1, 2)
    assert chosen(found, 3) is None
    assert chosen([], 0) is None


@given(st.lists(EVENTS))
def test_whatever_a_journal_holds_it_is_read(events: list[dict[str, Any]]) -> None:
    for one in tries_of("a", [journal(*events)]):
        assert one.number >= 1
        assert one.seed is None or 0 <= one.seed < 2**32
