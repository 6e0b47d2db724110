from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from pathlib import Path

import pytest

from ci.core.errors import MissingInputError
from ci.record.events import Crash, End, JournalEvent, ShardEnd, Start, parse
from ci.record.journal import (
    JournalWriter,
    bring_to_disk,
    gathered_journals,
    journal_path,
    next_attempt,
    read_journal,
    read_journals,
)
from ci.record.journal_line import line_of
from tests.journal_rows import rows_of


def write(run_dir: Path, shard: int, attempt: int, *kinds: type[JournalEvent]) -> Path:
    path = journal_path(run_dir, shard, attempt)
    journal = JournalWriter(path, lambda: 12.3456)
    for kind in kinds:
        journal.write(parse({"e": kind.__struct_config__.tag, "id": "a\ud800\n", "outcome": "passed"}))
    journal.close()
    return path


def test_events_come_back_in_order_and_by_shard_and_attempt(tmp_path: Path) -> None:
    write(tmp_path, 10, 1, Start, End)
    write(tmp_path, 2, 2, Start)
    write(tmp_path, 2, 1, Start)
    found = read_journals(tmp_path)
    assert [(one.shard, one.attempt) for one in found] == [(2, 1), (2, 2), (10, 1)]
    assert [type(event) for event in found[2].events] == [Start, End]
    assert found[2].events[0].t == 12.346
    assert rows_of(found[2].events)[0]["id"] == "a\ud800\n"


def test_a_torn_line_is_counted_and_costs_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path, 0, 1, Start)
    with path.open("ab") as stream:
        stream.write(b'{"e":"end","id\n[1,2]\n' + line_of(ShardEnd()) + b'{"e":"st')
    (journal,) = read_journals(tmp_path)
    assert [type(event) for event in journal.events] == [Start, ShardEnd]
    assert journal.torn == 3


def test_the_next_attempt_is_one_past_the_last(tmp_path: Path) -> None:
    assert next_attempt(tmp_path, 3) == 1
    write(tmp_path, 3, 1, Start)
    write(tmp_path, 3, 10, Start)
    assert next_attempt(tmp_path, 3) == 11
    assert next_attempt(tmp_path, 31) == 1


def test_files_that_are_no_journals_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, 0, 1, Start)
    (tmp_path / "journal" / "a-b.jsonl").write_text("x", encoding="utf-8")
    assert len(read_journals(tmp_path)) == 1
    assert len(gathered_journals(tmp_path)) == 1


def test_a_folder_without_journals_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="spyre-ci run"):
        read_journals(tmp_path)
    assert gathered_journals(tmp_path) == []


def test_half_a_line_of_a_killed_process_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "0-1.jsonl"
    path.write_bytes(b'{"t":1,"e":"end","id":"a"')
    with contextlib.closing(JournalWriter(path, lambda: 2.0)) as journal:
        journal.write(Crash(id="a"))
        journal.write(Start(id="b"))
    read = read_journal(path, 0, 1)
    assert [type(event) for event in read.events] == [Crash, Start]
    assert read.torn == 1


def test_a_deleted_journal_is_put_back_whole(tmp_path: Path) -> None:
    path = tmp_path / "journal" / "0-1.jsonl"
    with contextlib.closing(JournalWriter(path, lambda: 1.0)) as journal:
        journal.write(Start(id="a"))
        path.unlink()
        path.parent.rmdir()
        journal.write(End(id="a", outcome="passed"))
        assert journal.read(0).count(b"\n") == 2
        journal.restore()
        journal.restore()
        journal.write(Start(id="b"))
    assert [type(event) for event in read_journal(path, 0, 1).events] == [Start, End, Start]


def test_half_a_line_of_its_own_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "0-1.jsonl"
    writes: list[bytes] = []

    def full(descriptor: int, data: bytes) -> int:
        if writes:
            raise OSError(errno.ENOSPC, "No space left on device")
        writes.append(data[:5])
        return real(descriptor, data[:5])

    real = os.write
    with contextlib.closing(JournalWriter(path, lambda: 1.0, survivor=False)) as journal:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left") as caught:
            journal.write(Start(id="a"))
        assert caught.value.filename == str(path)
        monkeypatch.setattr(os, "write", real)
        journal.write(Start(id="b"))
    read = read_journal(path, 0, 1)
    assert ([event["id"] for event in rows_of(read.events)], read.torn) == (["b"], 1)


def test_it_is_synced_once_a_second_at_most_and_when_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.delattr(fcntl, "F_FULLFSYNC", raising=False)
    monkeypatch.setattr(os, "fdatasync", synced.append, raising=False)
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with contextlib.closing(JournalWriter(tmp_path / "0-1.jsonl", lambda: 1.0)) as journal:
        journal.write(Start(id="a"))
        journal.sync()
        assert len(synced) == 0
        now += 1.1
        journal.sync()
        journal.sync(now=True)  # nothing new
        assert len(synced) == 1
        journal.write(ShardEnd())
        journal.sync()
        assert len(synced) == 1
        journal.sync(now=True)
        assert len(synced) == 2


def test_a_disk_that_refuses_a_sync_is_told_and_what_cannot_be_synced_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(JournalWriter(tmp_path / "0-1.jsonl", lambda: 1.0)) as journal:
        for number, told in ((errno.EINVAL, False), (errno.EIO, True)):

            def refuse(_: int, number: int = number) -> None:
                raise OSError(number, os.strerror(number))

            monkeypatch.delattr(fcntl, "F_FULLFSYNC", raising=False)
            monkeypatch.setattr(os, "fdatasync", refuse, raising=False)
            journal.write(Start(id="a"))
            with pytest.raises(OSError, match="Input/output") if told else contextlib.nullcontext():
                journal.sync(now=True)


def test_where_there_is_a_call_for_the_disk_itself_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda *words: asked.append(words))
    monkeypatch.setattr(os, "fsync", None)
    bring_to_disk(7)
    bring_to_disk(7, whole=True)
    assert asked == [(7, 51)] * 2


@pytest.mark.parametrize(
    ("number", "told"), [(errno.ENOTSUP, False), (errno.EINVAL, False), (errno.EIO, True)]
)
def test_a_disk_without_that_call_is_synced_as_others_are(
    monkeypatch: pytest.MonkeyPatch, number: int, told: bool
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(number, os.strerror(number))

    synced: list[int] = []
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", refuse)
    monkeypatch.setattr(os, "fsync", synced.append)
    with pytest.raises(OSError, match="Input/output") if told else contextlib.nullcontext():
        bring_to_disk(7)
    assert synced == ([] if told else [7])


def test_full_is_what_the_file_system_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(JournalWriter(tmp_path / "0-1.jsonl", lambda: 1.0)) as journal:
        left = os.statvfs(tmp_path)
        for free, blocks, full in ((0, 9, True), (1, 9, True), (1 << 20, 1 << 21, False), (0, 0, False)):
            fields = list(left)
            fields[1], fields[2], fields[3], fields[4] = 4096, blocks, free, free
            monkeypatch.setattr(os, "fstatvfs", lambda _, f=tuple(fields): os.statvfs_result(f))
            assert journal.full is full
        monkeypatch.undo()
        journal.close()
        assert not journal.full
        journal._descriptor = os.open(os.devnull, os.O_RDONLY)  # for the closing
