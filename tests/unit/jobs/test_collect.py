"""Collecting takes what pods left, what is new of it, and nothing that no pod leaves."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ci.core.object_store import PART_BYTES
from ci.jobs import collect as module
from ci.jobs.collect import FILE, NO_POD, Collected, fill_missing_shards, make_room
from ci.jobs.collect import collect_files as gather
from ci.jobs.record import JobRecord
from ci.jobs.uploader import CUT_OFF, mark_doubts
from ci.record import events
from ci.record.journal import JournalWriter, journal_path, read_journals
from ci.record.verdict import Verdict
from ci.report.reconcile import Account, reconcile
from test_selection.plan import Group, Plan, Shard, fingerprint
from tests.fake_bucket import FakeBucket

RUN = "a-run"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def put(store: Path, pod: int | str, name: str, data: bytes) -> Path:
    path = store / RUN / "pods" / str(pod) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def here(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_journals_and_logs_of_all_pods_and_attempts_are_brought(store: Path, tmp_path: Path) -> None:
    names = {
        "control/journal/3-1.jsonl": 2, "journal/0-1.jsonl": 0, "journal/0-2.jsonl": 0,
        "journal/7-1.jsonl": 10, "logs/3-1.log": 2, "logs/pod-2-1.log": 2,
    }  # fmt: skip
    for name, pod in names.items():
        put(store, pod, name, name.encode())
    found = gather(str(store), RUN, tmp_path / "into")
    assert (found.files, found.notes) == (6, [])
    assert here(tmp_path / "into") == {name: name.encode() for name in names}
    assert gather(str(store), RUN, tmp_path / "into") == Collected(files=6)


@pytest.mark.parametrize("now", [b"first\nsecond\n", b"o"], ids=["longer", "another"])
def test_a_file_that_is_another_in_the_store_is_taken_again(store: Path, tmp_path: Path, now: bytes) -> None:
    put(store, 0, "journal/0-1.jsonl", b"first\n")
    gather(str(store), RUN, tmp_path / "into")
    put(store, 0, "journal/0-1.jsonl", now)
    assert gather(str(store), RUN, tmp_path / "into").new_bytes == len(now)
    assert here(tmp_path / "into") == {"journal/0-1.jsonl": now}


@pytest.mark.parametrize(
    ("pod", "name"),
    [
        ("x", "journal/0-1.jsonl"), ("00", "journal/0-1.jsonl"), (0, "journal/0-0.jsonl"),
        (0, "journal/0-1.json"),
        (0, "journal/a-1.jsonl"), (0, "journal/..-1.jsonl"), (0, "logs/a.log"), (0, "plan.json"),
        (0, "journal/0-1.jsonl.gz"), (0, "journal/1234567-1.jsonl"),
    ],
)  # fmt: skip
def test_what_no_pod_leaves_is_left_there(store: Path, tmp_path: Path, pod: int | str, name: str) -> None:
    assert gather(str(store), RUN, tmp_path / "into") == Collected()  # there is nothing of the run yet
    put(store, pod, name, b"x")
    assert gather(str(store), RUN, tmp_path / "into").files == 0
    assert not (tmp_path / "into").exists()


def test_links_and_pipes_are_not_followed(store: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s")
    journal = put(store, 0, "journal/0-1.jsonl", b"x").parent
    (journal / "0-1.jsonl").unlink()
    (journal / "0-2.jsonl").symlink_to(secret)
    os.mkfifo(journal / "0-3.jsonl")
    (store / RUN / "pods" / "1").mkdir()
    (store / RUN / "pods" / "1" / "journal").symlink_to(tmp_path)
    (store / RUN / "pods" / "2").symlink_to(store / RUN / "pods" / "0")
    found = gather(str(store), RUN, tmp_path / "into")
    assert found.files == 0
    assert found.notes == [
        "pod 0: journal/0-2.jsonl is not a regular file",
        "pod 0: journal/0-3.jsonl is not a regular file",
    ]


@pytest.mark.parametrize(("owners", "own", "other"), [({}, 3, 20), ({0: 20}, 20, 3)])
def test_a_journal_that_two_pods_have_is_its_owners_or_the_firsts(
    store: Path, tmp_path: Path, owners: dict[int, int], own: int, other: int
) -> None:
    for pod in (3, 20):
        put(store, pod, "journal/0-1.jsonl", b"%d\n" % pod)
    put(store, own, "journal/0-2.jsonl", b"again\n")
    found = gather(str(store), RUN, tmp_path / "into", owners)
    assert here(tmp_path / "into") == {"journal/0-1.jsonl": b"%d\n" % own, "journal/0-2.jsonl": b"again\n"}
    assert found.notes == [f"pod {other}: journal/0-1.jsonl belongs to pod {own}"]


def test_a_file_that_is_too_large_is_left_and_told_of(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 4)
    put(store, 0, "journal/0-1.jsonl", b"123456")
    found = gather(str(store), RUN, tmp_path / "into")
    assert found.notes == ["pod 0: journal/0-1.jsonl is larger than 4 bytes"]
    assert not (tmp_path / "into").exists()


def test_more_notes_than_people_read_are_counted() -> None:
    found = Collected()
    for number in range(25):
        found.note(str(number))
    assert (len(found.notes), found.more) == (20, 5)


def test_files_of_a_bucket_are_taken_whole_and_what_no_pod_put_there_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = FakeBucket({f"{RUN}/pods/0/journal/0-1.jsonl": b"one\n", f"{RUN}/pods/12/logs/1-1.log": b"log"})
    bucket.held |= {f"{RUN}/pods/0/journal/../../x": b"x", f"{RUN}/pods/0/begun": b"", f"{RUN}/other": b""}
    monkeypatch.setattr(module, "Bucket", lambda *_, **__: bucket)
    found = gather("s3://b", RUN, tmp_path)
    assert here(tmp_path) == {"journal/0-1.jsonl": b"one\n", "logs/1-1.log": b"log"}
    assert (found.files, found.new_bytes, len(found.notes)) == (2, 7, 1)
    assert "is not the journal of a pod" in found.notes[0]
    bucket.held[f"{RUN}/pods/0/journal/0-1.jsonl"] = b"one\ntwo\n"
    bucket.got.clear()
    assert gather("s3://b", RUN, tmp_path).new_bytes == 8
    assert bucket.got == [f"{RUN}/pods/0/journal/0-1.jsonl"]
    # The log of a test that prints for hours is never held whole, sixteen of them at once.
    bucket.held[f"{RUN}/pods/12/logs/1-1.log"] = bytes(PART_BYTES + 1)
    monkeypatch.setattr(bucket, "get", pytest.fail)
    monkeypatch.setattr(bucket, "download", lambda name, path: path.write_bytes(bucket.held[name]))
    assert gather("s3://b", RUN, tmp_path).new_bytes == PART_BYTES + 1


RECORD = JobRecord(
    name="tests-calm-otter-1f2e3", namespace="default", kind="tests", run="some-1-1", image="",
    fingerprint="", store="", shards=((0,),),
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("journal/0-1.jsonl", "logs/0-1.log", "control/journal/0-1.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "plan.json").write_text("{}")
    return tmp_path


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("note", ["", "{"], ids=["none", "broken"])
def test_what_nobody_knows_of_is_moved_and_what_is_gathered_then_stays(folder: Path, note: str) -> None:
    if note:
        (folder / FILE).write_text(note)
    assert make_room(folder, RECORD.run, RECORD) == folder / "earlier" / "1"
    moved = [
        f"earlier/1/{name}" for name in ("control/journal/0-1.jsonl", "journal/0-1.jsonl", "logs/0-1.log")
    ]
    assert files(folder) == [*moved, FILE, "plan.json"]
    (folder / "journal").mkdir()
    (folder / "journal" / "0-1.jsonl").write_text("y")
    assert make_room(folder, RECORD.run, RECORD) is None
    assert (folder / "journal" / "0-1.jsonl").read_text() == "y"


@pytest.mark.parametrize("another", [replace(RECORD, run="some-2-1"), replace(RECORD, namespace=""), None])
def test_what_was_gathered_of_another_job_is_moved(folder: Path, another: JobRecord | None) -> None:
    make_room(folder, RECORD.run, RECORD)
    (folder / "journal").mkdir()
    (folder / "journal" / "0-2.jsonl").write_text("y")
    run = RECORD.run if another is None else another.run
    assert make_room(folder, run, another) == folder / "earlier" / "2"
    assert (folder / "earlier" / "2" / "journal" / "0-2.jsonl").is_file()
    assert not (folder / "journal").exists()


def test_an_empty_folder_has_nothing_to_move(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    assert make_room(tmp_path, RECORD.run, RECORD) is None
    assert not (tmp_path / "earlier").exists()


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
    assert fill_missing_shards(tmp_path, PLAN, {0: "evicted: the node is low on memory"}, moment=7.0) == [
        0,
        2,
    ]
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
    assert fill_missing_shards(tmp_path, PLAN, lost, moment=7.0) == []
    found = {one.id: (one.verdict, one.message) for one in account(tmp_path).results}
    assert found["a.py::0a"][0] is Verdict.INFRASTRUCTURE
    assert found["a.py::0b"] == (Verdict.NOT_RUN, "three pods were lost")
    assert found["a.py::1a"][0] is Verdict.PASSED
    assert found["a.py::2a"] == (Verdict.NOT_RUN, "a.py could not be imported: it cannot be imported")


def test_when_the_journal_comes_the_made_up_one_goes(tmp_path: Path) -> None:
    assert fill_missing_shards(tmp_path, PLAN, {}, moment=7.0) == [0, 1, 2]
    before = (tmp_path / "journal" / "0-0.jsonl").read_bytes()
    assert fill_missing_shards(tmp_path, PLAN, {}, moment=7.0) == [0, 1, 2]
    assert (tmp_path / "journal" / "0-0.jsonl").read_bytes() == before
    for index, shard in enumerate(SHARDS):
        write(tmp_path, index, *shard.ids)
    # Even before it is gone it is in nobody's way.
    assert {one.verdict for one in account(tmp_path).results} == {Verdict.PASSED}
    assert fill_missing_shards(tmp_path, PLAN, {}, moment=7.0) == []
    assert not list((tmp_path / "journal").glob("*-0.jsonl"))


def test_what_may_have_run_before_the_bucket_heard_is_marked(tmp_path: Path) -> None:
    write(tmp_path, 0, "a.py::0a", begun="a.py::0b")
    write(tmp_path, 1)
    assert mark_doubts(tmp_path, PLAN, [0, 1], clock=lambda: 60.0) == 2
    # Of a pod with no journal at all, every test is in doubt.
    assert mark_doubts(tmp_path / "log alone", PLAN, [2], clock=lambda: 60.0) == 2
    write(tmp_path, 1, *SHARDS[1].ids, attempt=3)
    found = {one.id: one for one in account(tmp_path).results}
    assert "may have run before" not in found["a.py::0a"].message
    assert found["a.py::0b"].verdict is Verdict.INFRASTRUCTURE
    for name in SHARDS[1].ids:
        assert found[name].message.endswith(f"may have run before: {CUT_OFF}")


def test_a_mark_that_a_test_may_have_run_is_no_word_of_it(tmp_path: Path) -> None:
    write(tmp_path, 0, "a.py::0a")
    mark_doubts(tmp_path, PLAN, [0], clock=lambda: 60.0)
    fill_missing_shards(tmp_path, PLAN, {0: "its pods were lost three times"}, moment=7.0)
    found = {one.id: one for one in account(tmp_path).results}
    assert found["a.py::0b"].verdict is Verdict.NOT_RUN
    assert "its pods were lost three times" in found["a.py::0b"].message
    assert found["a.py::0a"].verdict is Verdict.PASSED
