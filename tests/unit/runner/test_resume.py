from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import EXIT_INCOMPLETE, DiskFullError, PlanMismatchError
from ci.record.journal import Journal
from ci.runner.resume import cannot_go_on, doubts, refuse_other_plans, what_is_left
from ci.runner.strays import find_strays_of_run
from test_selection.plan import Group, Plan, Shard
from tests.journal_rows import events_from


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
        assert f"`spyre-ci run --resume {tmp_path}` goes on from here" in str(error)


def test_processes_of_a_run_are_found_by_its_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    marks = {1: run / "journal" / "0-1.jsonl", 2: tmp_path / "run2" / "journal" / "0-1.jsonl"}
    for pid, path in marks.items():
        (tmp_path / "proc" / str(pid)).mkdir(parents=True)
        (tmp_path / "proc" / str(pid) / "environ").write_bytes(f"A=1\0SPYRE_CI_MARK=12:{path}\0".encode())
    (tmp_path / "proc" / "self").mkdir()
    (tmp_path / "proc" / "self" / "stat").touch()
    assert find_strays_of_run(run, proc=tmp_path / "proc") == [1]
