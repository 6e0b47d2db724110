from __future__ import annotations

import errno
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import EXIT_INCOMPLETE, DiskFullError, PlanMismatchError
from ci.record import events
from ci.record.events import JournalEvent, NoRetry
from ci.record.journal import XPASS_STRICT, Journal, JournalWriter, journal_path, read_journals
from ci.record.verdict import Verdict
from ci.report.control import wants_control
from ci.report.reconcile import reconcile
from ci.runner.orphans import find_orphans_of_run
from ci.runner.resume import (
    apart_from_chains,
    cannot_go_on,
    doubts,
    lost_with_host,
    pending_retries,
    refuse_other_plans,
    what_is_left,
    write_off,
)
from ci.runner.retries import NO_OTHER_CARD, TOO_MANY, Pending, Retries
from test_selection.plan import Group, Plan, Shard, fingerprint
from tests.journal_rows import Row, events_from
from tests.unit.runner.plans import OneFile


def plan_of(*shards: Group) -> Plan:
    made = tuple(Shard(index=index, expected_s=10.0, groups=(group,)) for index, group in enumerate(shards))
    return Plan(fingerprint="f" * 64, bound_s=1, makespan_s=1, binds="balance", shards=made)


PLAN = plan_of(
    Group(file="a.py", ids=("a", "b", "c", "d", "e"), chains=((1, 3),)), Group(file="z.py", ids=("z",))
)


def journal(*events: dict[str, Any], **lost: Any) -> Journal:
    return Journal(path=Path("run/journal/0-1.jsonl"), shard=0, attempt=1, events=events_from(events), **lost)


def start(boot: str = "now") -> dict[str, Any]:
    return {"e": "shard_start", "boot": boot, "fingerprint": PLAN.fingerprint}


def test_what_is_left_keeps_order_chains_and_fingerprint() -> None:
    left = what_is_left(PLAN, {"a", "c", "z"})
    assert (left.fingerprint, left.ids) == (PLAN.fingerprint, ["b", "d", "e"])
    (group,) = left.shards[0].groups
    assert group.chains == ((0, 2),)
    assert left.shards[0].expected_s == 6.0
    assert left.shards[1].groups == ()
    assert what_is_left(PLAN, {"a", "b", "c"}).shards[0].groups[0].chains == ()


@given(st.sets(st.sampled_from(["a", "b", "c", "d", "e", "z", "unknown"])))
def test_what_is_left_and_what_is_done_are_the_plan(done: set[str]) -> None:
    left = what_is_left(PLAN, done)
    assert [name for name in PLAN.ids if name not in done] == left.ids
    for shard in left.shards:
        for group in shard.groups:
            assert all(first >= 0 and first + many <= len(group.ids) for first, many in group.chains)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (journal(start()), {}),
        (journal(start(), {"e": "shard_end"}, torn=1), {}),
        (journal(start("before"), {"e": "shard_end"}, {"e": "no_retry"}), {}),
        (journal(start("before")), {"the machine went down, and up to a second of": ["b", "d"]}),
        (journal(start("")), {"the machine went down, and up to a second of": ["b", "d"]}),
        (journal(), {}),
        (journal({"e": "end", "id": "a"}), {"the machine went down, and up to a second of": ["b", "d"]}),
        (journal(torn=1), {"the machine went down, and up to a second of": ["b", "d"]}),
        (journal(start(), damaged=1, suspects=frozenset({"a", "b", "c"})), {"its lines in": ["b"]}),
        (journal(start(), damaged=1, nameless=1), {"lines of": ["b", "d"]}),
    ],
)
def test_a_test_is_in_doubt_where_what_told_of_it_may_be_lost(
    one: Journal, expected: dict[str, list[str]]
) -> None:
    left = what_is_left(PLAN, {"a", "e", "z"})
    found = doubts(left, [one], started={"c"}, boot="now").get(0, {})
    assert sorted(found.values()) == sorted(expected.values())
    assert all(
        said.startswith(begin) and "journal/0-1.jsonl" in said
        for said, begin in zip(found, expected, strict=True)
    )


def test_the_first_journal_that_puts_a_test_in_doubt_is_named_and_the_plan_is_gone_through_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = Plan.ids
    asked: list[Plan] = []

    def ids(plan: Plan) -> list[str]:
        asked.append(plan)
        return list(whole.__get__(plan))

    monkeypatch.setattr(Plan, "ids", property(ids))
    some = journal(start(), damaged=1, suspects=frozenset({"b"}))
    lost = [replace(journal(start("before")), path=Path(f"run/journal/0-{n}.jsonl")) for n in range(2, 500)]
    found = doubts(PLAN, [some, *lost], started={"z"}, boot="now")
    assert found == {
        0: {
            "its lines in journal/0-1.jsonl are lost": ["b"],
            "the machine went down, and up to a second of journal/0-2.jsonl with it": ["a", "c", "d", "e"],
        }
    }
    assert len(asked) <= 1


def test_a_journal_of_another_plan_is_refused() -> None:
    refuse_other_plans(PLAN, [journal(start()), journal()])
    with pytest.raises(PlanMismatchError, match="put the plan that was run back"):
        refuse_other_plans(PLAN, [journal({**start(), "fingerprint": "other"})])


def test_a_full_disk_and_a_broken_one_are_told_apart_and_both_say_how_to_go_on(tmp_path: Path) -> None:
    full, broken = cannot_go_on(tmp_path, errno.ENOSPC), cannot_go_on(tmp_path, errno.EIO)
    assert isinstance(full, DiskFullError)
    assert "no space left for the run's journals" in str(full)
    assert "Input/output error" in str(broken)
    for error in (full, broken, cannot_go_on(tmp_path, None)):
        assert error.exit_code == EXIT_INCOMPLETE
        assert f"`spyre-ci run --resume {tmp_path}` continues from here" in str(error)


def test_processes_of_a_run_are_found_by_its_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    marks = {1: run / "journal" / "0-1.jsonl", 2: tmp_path / "run2" / "journal" / "0-1.jsonl"}
    for pid, path in marks.items():
        (tmp_path / "proc" / str(pid)).mkdir(parents=True)
        (tmp_path / "proc" / str(pid) / "environ").write_bytes(f"A=1\0SPYRE_CI_MARK=12:{path}\0".encode())
    (tmp_path / "proc" / "self").mkdir()
    (tmp_path / "proc" / "self" / "stat").touch()
    assert find_orphans_of_run(run, proc=tmp_path / "proc") == [1]


CARDS = ("spyre:0", "spyre:1", "spyre:2+spyre:3")


def journal_pending(*events: Row, card: str = "spyre:0", number: int = 1, boot: str = "") -> Journal:
    begin = {"e": "shard_start", "t": 0.0, "card": card, "boot": boot}
    path = Path(f"journal/0-{number}.jsonl")
    return Journal(path=path, shard=0, attempt=number, events=events_from([begin, *events]))


def tried(name: str, outcome: str, number: int = 1, t: float | None = None, **more: Any) -> list[Row]:
    t = float(number) if t is None else t
    start: Row = {"e": "start", "t": t, "id": name} | ({"try": number} if number > 1 else {})
    match outcome:
        case "cut":
            return [start]
        case "crash":
            return [start, {"e": "crash", "t": t, "id": name, "cause": "signal", **more}]
        case "lost":
            return [start, {"e": "worker_lost", "t": t, "id": name, **more}]
        case _:
            return [start, {"e": "end", "t": t, "id": name, "outcome": outcome, **more}]


@pytest.mark.parametrize(
    ("events", "attempt"),
    [
        (tried("a", "failed"), 2),
        (tried("a", "crash"), 2),
        (tried("a", "hardware"), 2),
        ([*tried("a", "failed"), *tried("a", "cut", 2)], 3),
        (tried("a", "failed", 4), 5),
        ([*tried("a", "lost"), *tried("a", "passed", 2)], None),
        (tried("a", "passed"), None),
        (tried("a", "skipped"), None),
        (tried("a", "xfailed"), None),
        ([*tried("a", "failed"), *tried("a", "passed", 2)], None),
        ([*tried("a", "failed"), *tried("a", "skipped", 2)], None),
        ([*tried("a", "failed"), *tried("a", "failed", 2)], None),
        ([*tried("a", "failed"), *tried("a", "lost", 2)], 3),
        ([*tried("a", "lost"), *tried("a", "failed", 2)], 3),
        ([*tried("a", "failed"), *tried("a", "lost", 2), *tried("a", "lost", 3)], None),
        (tried("a", "lost"), None),
        (tried("a", "cut"), None),
        (tried("a", "failed", message=f"{XPASS_STRICT} x"), None),
        ([*tried("a", "failed"), {"e": "no_retry", "ids": ["a"], "message": "no other card"}], None),
        ([*tried("a", "failed", t=1.0), *tried("a", "passed", t=2.0)], None),
        ([*tried("a", "passed", t=1.0), *tried("a", "failed", t=2.0)], 2),
    ],
)
def test_what_failed_last_and_has_a_try_left_is_pending(events: list[Row], attempt: int | None) -> None:
    found = pending_retries([journal_pending(*events)], 1)
    expected = [] if attempt is None else [("a", frozenset({"spyre:0"}), attempt)]
    assert [(one.id, one.cards, one.attempt) for one in found] == expected
    assert pending_retries([journal_pending(*events)], 0) == []


def test_on_another_machine_there_are_other_cards() -> None:
    no_other: Row = {"e": "no_retry", "ids": ["a"], "message": f"{NO_OTHER_CARD}; spyre:1 is held"}
    found = journal_pending(*tried("a", "hardware", card="spyre:0"), no_other, boot="one")
    assert pending_retries([found], 1, "one") == pending_retries([found], 1) == []
    assert pending_retries([found], 1, "two") == [Pending("a", frozenset(), 2, 1)]
    # It failed there, too; and what was said for another reason holds everywhere.
    again = journal_pending(*tried("a", "hardware", 2, t=2.0), no_other, number=2, boot="two")
    assert pending_retries([found, again], 1, "three") == []
    assert pending_retries([found, again], 2, "two") == []
    assert pending_retries([found, again], 2, "one") == []
    assert pending_retries([found, again], 2, "three") == [Pending("a", frozenset(), 3, 2)]
    found.events[-1] = NoRetry(ids=["a"], message=TOO_MANY)
    assert pending_retries([found], 1, "two") == []


def test_tries_are_counted_over_all_journals_whatever_their_order() -> None:
    first = journal_pending(*tried("a", "failed"), *tried("b", "failed"))
    other = journal_pending(*tried("a", "failed", 2, t=2.0), card="spyre:1+spyre:2", number=2)
    for journals in ([first, other], [other, first]):
        assert sorted(pending_retries(journals, 2), key=attrgetter("id")) == [
            Pending("a", frozenset({"spyre:0", "spyre:1", "spyre:2"}), 3, failed=2),
            Pending("b", frozenset({"spyre:0"}), 2, 1),
        ]
        assert [one.id for one in pending_retries(journals, 1)] == ["b"]


def test_strange_events_are_no_tries() -> None:
    strange: list[Row] = [
        {"e": "end"}, {"e": "end", "id": 3, "outcome": "failed"}, {"e": "start", "id": ["x"], "try": "y"},
        {"e": "worker_lost", "id": None}, {"e": "no_retry", "ids": 7}, {"e": "crash", "id": "a", "t": "x"},
        {"e": "start", "id": "a", "try": -1}, {"e": "end", "id": "b", "outcome": ["failed"]},
    ]  # fmt: skip
    assert pending_retries([journal_pending(*strange, card="")], 1) == [Pending("a", frozenset(), 2, 1)]


_TURNS = st.lists(
    st.tuples(
        st.sampled_from(CARDS),
        st.sampled_from(["passed", "failed", "crash", "hardware", "skipped", "xfailed"]),
        st.booleans(),
    ),
    max_size=40,
)


@given(_TURNS, st.integers(0, 3), st.booleans())
def test_they_are_those_that_the_run_that_was_cut_off_had_waiting(
    turns: list[tuple[str, str, bool]], most: int, cut: bool
) -> None:
    retries = Retries(OneFile(), most=most, budget=10**6)
    told: dict[str, list[Row]] = {card: [] for card in CARDS}
    expected_more: list[Pending] = []
    for moment, (card, outcome, new) in enumerate(turns):
        again = None if new else retries.take(card)
        name, number = (f"t{moment}", 1) if again is None else (again.id, again.attempt)
        if again is not None and cut and moment == len(turns) - 1:
            told[card] += tried(name, "cut", number, t=float(moment))
            expected_more = [Pending(name, again.avoid, number + 1)]
            continue
        told[card] += tried(name, outcome, number, t=float(moment))
        if outcome in ("failed", "crash", "hardware"):
            retries.failed(name, card=card, attempt=number)
    journals = [
        journal_pending(*events, card=card, number=number)
        for number, (card, events) in enumerate(told.items(), 1)
    ]
    waiting = [Pending(one.id, one.avoid, one.attempt) for one in retries.waiting]
    found = pending_retries(journals, most)
    told_of = attrgetter("id", "cards", "attempt")
    assert sorted(map(told_of, found)) == sorted(map(told_of, [*waiting, *expected_more]))


NAMES = ("a", "b", "c", "d", "e")
IDS = tuple(f"test_x.py::T::test_{name}" for name in NAMES)


def plan_of_lost(*chains: tuple[int, int]) -> Plan:
    shards = (Shard(index=0, expected_s=1, groups=(Group(file="test_x.py", ids=IDS, chains=chains),)),)
    return Plan(fingerprint=fingerprint(shards), bound_s=1, makespan_s=1, binds="balance", shards=shards)


def journal_lost(*found: JournalEvent, damaged: int = 0) -> Journal:
    return Journal(path=Path("journal/0-1.jsonl"), shard=0, attempt=1, events=list(found), damaged=damaged)


def start_lost(name: str) -> JournalEvent:
    return events.Start(id=name)


def test_only_what_ran_when_all_went_at_once_is_lost_with_its_host() -> None:
    end = events.End(id="a", outcome="passed")
    assert lost_with_host([journal_lost(start_lost("a"), end, start_lost("b"))]) == {"b": 1}
    assert lost_with_host(
        [journal_lost(start_lost("b")), journal_lost(start_lost("b"), start_lost("c"))]
    ) == {"b": 2, "c": 1}
    # It came to an end at some time; its worker alone went; the run was ended; its end may be damaged.
    assert lost_with_host([journal_lost(start_lost("a")), journal_lost(start_lost("a"), end)]) == {}
    for last in (
        events.WorkerLost(id="b"), events.WorkerLost(), events.NotRun(ids=["b"]),
        events.ShardEnd(status="interrupted"),
    ):  # fmt: skip
        assert lost_with_host([journal_lost(start_lost("b"), last)]) == {}
    assert lost_with_host([journal_lost(start_lost("b"), damaged=1)]) == {}


def test_what_runs_in_order_is_not_run_apart() -> None:
    assert apart_from_chains(plan_of_lost((1, 2)).shards, set(IDS)) == [IDS[0], IDS[3], IDS[4]]
    assert apart_from_chains(plan_of_lost().shards, {IDS[1]}) == [IDS[1]]


def run_until(folder: Path, plan: Plan, attempt: int, name: str) -> None:
    writer = JournalWriter(journal_path(folder, 0, attempt), lambda: float(attempt))
    writer.write(events.ShardStart(shard=0, attempt=attempt, fingerprint=plan.fingerprint, boot=str(attempt)))
    writer.write(events.Start(id=name))
    writer.close()


def test_a_test_that_took_two_pods_down_has_failed_and_is_not_run_again(tmp_path: Path) -> None:
    plan = plan_of_lost()

    def written_off() -> list[str]:
        return write_off(tmp_path, plan, read_journals(tmp_path), boot="3", host="here", clock=lambda: 3.0)

    run_until(tmp_path, plan, 1, IDS[1])
    assert written_off() == []
    run_until(tmp_path, plan, 2, IDS[1])
    assert written_off() == [IDS[1]]
    assert written_off() == []
    journals = read_journals(tmp_path)
    found = {one.id: one for one in reconcile(plan, journals).results}
    assert found[IDS[1]].verdict is Verdict.FAILED
    assert found[IDS[1]].cause == "exit"
    assert "its container ended with all its processes 2 times while it ran" in found[IDS[1]].message
    assert found[IDS[0]].verdict is Verdict.NOT_RUN
    assert pending_retries(journals, 5) == []
    assert wants_control(found.values()) == []
