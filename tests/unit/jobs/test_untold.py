"""What no journal tells of is told in one that is made, and what may have run unseen is marked."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from ci.core.errors import PlanMismatchError
from ci.jobs.earlier import CUT_OFF, mark_doubts, refuse_another_image
from ci.jobs.untold import NO_POD, tell_untold
from ci.record import events
from ci.record.journal import JournalWriter, journal_path, read_journals
from ci.record.verdict import Verdict
from ci.report.reconcile import Account, reconcile
from test_selection.plan import Group, Plan, Shard, fingerprint

SHARDS = tuple(
    Shard(
        index=index, expected_s=1.0, groups=(Group(file="a.py", ids=(f"a.py::{index}a", f"a.py::{index}b")),)
    )
    for index in range(3)
)
PLAN = Plan(fingerprint=fingerprint(SHARDS), bound_s=1.0, makespan_s=1.0, binds="balance", shards=SHARDS)


def write(folder: Path, shard: int, *ended: str, begun: str = "", attempt: int = 1) -> None:
    with contextlib.closing(JournalWriter(journal_path(folder, shard, attempt), lambda: 50.0)) as journal:
        journal.write(events.ShardStart(shard=shard, attempt=attempt, fingerprint=PLAN.fingerprint, boot="b"))
        for name in ended:
            journal.write(events.Start(id=name, log=0))
            journal.write(events.End(id=name, outcome="passed", seconds=1.0))
        if begun:
            journal.write(events.Start(id=begun, log=0))


def account(folder: Path) -> Account:
    found = reconcile(PLAN, read_journals(folder))
    assert sorted(one.id for one in found.results) == sorted(PLAN.ids)
    return found


def test_shards_without_a_word_are_told_of_with_their_reason(tmp_path: Path) -> None:
    write(tmp_path, 1, *SHARDS[1].ids)
    journal_path(tmp_path, 2, 1).touch()  # it was made, and nothing was written
    assert tell_untold(tmp_path, PLAN, {0: "evicted: the node is low on memory"}, moment=7.0) == [0, 2]
    found = {one.id: (one.verdict, one.message) for one in account(tmp_path).results}
    assert found["a.py::0a"] == (Verdict.NOT_RUN, "evicted: the node is low on memory")
    assert found["a.py::1a"][0] is Verdict.PASSED
    assert found["a.py::2b"] == (Verdict.NOT_RUN, NO_POD)
    assert account(tmp_path).notes == ()
    assert account(tmp_path).ended_at == 50.0


def test_what_a_pod_that_is_lost_for_good_did_not_come_to_has_its_reason(tmp_path: Path) -> None:
    write(tmp_path, 0, begun="a.py::0a")
    write(tmp_path, 1, *SHARDS[1].ids)
    write(tmp_path, 2)
    with contextlib.closing(JournalWriter(journal_path(tmp_path, 2, 1), lambda: 51.0)) as journal:
        journal.write(events.FileError(file="a.py", message="it cannot be imported", detail=""))
    lost = dict.fromkeys(range(3), "three pods were lost")
    assert tell_untold(tmp_path, PLAN, lost, moment=7.0) == []
    found = {one.id: (one.verdict, one.message) for one in account(tmp_path).results}
    assert found["a.py::0a"][0] is Verdict.INFRASTRUCTURE
    assert found["a.py::0b"] == (Verdict.NOT_RUN, "three pods were lost")
    assert found["a.py::1a"][0] is Verdict.PASSED
    assert found["a.py::2a"] == (Verdict.NOT_RUN, "a.py could not be imported: it cannot be imported")


def test_when_the_journal_comes_the_made_up_one_goes(tmp_path: Path) -> None:
    assert tell_untold(tmp_path, PLAN, {}, moment=7.0) == [0, 1, 2]
    before = (tmp_path / "journal" / "0-0.jsonl").read_bytes()
    assert tell_untold(tmp_path, PLAN, {}, moment=7.0) == [0, 1, 2]
    assert (tmp_path / "journal" / "0-0.jsonl").read_bytes() == before
    for index, shard in enumerate(SHARDS):
        write(tmp_path, index, *shard.ids)
    # Even before it is gone it is in nobody's way.
    assert {one.verdict for one in account(tmp_path).results} == {Verdict.PASSED}
    assert tell_untold(tmp_path, PLAN, {}, moment=7.0) == []
    assert not list((tmp_path / "journal").glob("*-0.jsonl"))


def test_what_may_have_run_before_the_bucket_heard_is_marked(tmp_path: Path) -> None:
    write(tmp_path, 0, "a.py::0a", begun="a.py::0b")
    write(tmp_path, 1)
    assert mark_doubts(tmp_path, PLAN, [0, 1], boot="b", host="here", clock=lambda: 60.0) == 2
    write(tmp_path, 1, *SHARDS[1].ids, attempt=3)
    found = {one.id: one for one in account(tmp_path).results}
    assert "may have run before" not in found["a.py::0a"].message
    assert found["a.py::0b"].verdict is Verdict.INFRASTRUCTURE
    for name in SHARDS[1].ids:
        assert found[name].message.endswith(f"may have run before: {CUT_OFF}")


def test_a_mark_that_a_test_may_have_run_is_no_word_of_it(tmp_path: Path) -> None:
    write(tmp_path, 0, "a.py::0a")
    mark_doubts(tmp_path, PLAN, [0], boot="b", host="here", clock=lambda: 60.0)
    tell_untold(tmp_path, PLAN, {0: "its pods were lost three times"}, moment=7.0)
    found = {one.id: one for one in account(tmp_path).results}
    assert found["a.py::0b"].verdict is Verdict.NOT_RUN
    assert "its pods were lost three times" in found["a.py::0b"].message
    assert found["a.py::0a"].verdict is Verdict.PASSED


def test_a_pod_of_which_only_a_log_is_left_is_in_doubt_altogether(tmp_path: Path) -> None:
    assert mark_doubts(tmp_path, PLAN, [0], boot="b", host="here", clock=lambda: 60.0) == 2


OLD, NEW = (f"registry.example.com/some@sha256:{letter * 64}" for letter in "ab")


def begun_in(folder: Path, image: str) -> None:
    with contextlib.closing(JournalWriter(journal_path(folder, 0, 1), lambda: 50.0)) as journal:
        journal.write(events.ShardStart(shard=0, attempt=1, fingerprint=PLAN.fingerprint, image=image))


def test_a_pod_does_not_go_on_with_what_was_begun_in_another_image(tmp_path: Path) -> None:
    begun_in(tmp_path, OLD)
    with pytest.raises(PlanMismatchError, match="is of an earlier pod in ") as caught:
        refuse_another_image(tmp_path, NEW)
    assert "submit a new run" in str(caught.value)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (OLD, OLD),
        (OLD, OLD.replace("example.com", "example.com:5000")),
        ("", NEW),
        (OLD, ""),
        (OLD, "some:latest"),
    ],
)
def test_the_same_image_and_one_that_nobody_names_go_on(tmp_path: Path, before: str, now: str) -> None:
    refuse_another_image(tmp_path, now)
    begun_in(tmp_path, before)
    journal_path(tmp_path, 1, 1).write_bytes(b"torn")
    refuse_another_image(tmp_path, now)
