from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from ci.errors import MissingInputError
from ci.runner.journal import JournalWriter, journal_path, next_attempt, read_journal, read_journals
from ci.runner.journal_line import line_of


def write(run_dir: Path, shard: int, attempt: int, *events: str) -> Path:
    path = journal_path(run_dir, shard, attempt)
    journal = JournalWriter(path, lambda: 12.3456)
    for event in events:
        journal.write(event, id="a\ud800\n")
    journal.close()
    return path


def test_events_come_back_in_order_and_by_shard_and_attempt(tmp_path: Path) -> None:
    write(tmp_path, 10, 1, "start", "end")
    write(tmp_path, 2, 2, "start")
    write(tmp_path, 2, 1, "start")
    found = read_journals(tmp_path)
    assert [(one.shard, one.attempt) for one in found] == [(2, 1), (2, 2), (10, 1)]
    assert [event["e"] for event in found[2].events] == ["start", "end"]
    assert found[2].events[0]["t"] == 12.346
    assert found[2].events[0]["id"] == "a\ud800\n"


def test_a_torn_line_is_counted_and_costs_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path, 0, 1, "start")
    with path.open("ab") as stream:
        stream.write(b'{"e":"end","id\n[1,2]\n' + line_of({"t": 1, "e": "shard_end"}) + b'{"e":"st')
    (journal,) = read_journals(tmp_path)
    assert [event["e"] for event in journal.events] == ["start", "shard_end"]
    assert journal.torn == 3


def test_the_next_attempt_is_one_past_the_last(tmp_path: Path) -> None:
    assert next_attempt(tmp_path, 3) == 1
    write(tmp_path, 3, 1, "start")
    write(tmp_path, 3, 10, "start")
    assert next_attempt(tmp_path, 3) == 11
    assert next_attempt(tmp_path, 31) == 1


def test_files_that_are_no_journals_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, 0, 1, "start")
    (tmp_path / "journal" / "a-b.jsonl").write_text("x", encoding="utf-8")
    assert len(read_journals(tmp_path)) == 1


def test_a_folder_without_journals_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="spyre-ci run"):
        read_journals(tmp_path)


def test_half_a_line_of_a_killed_process_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "0-1.jsonl"
    path.write_bytes(b'{"t":1,"e":"end","id":"a"')
    with contextlib.closing(JournalWriter(path, lambda: 2.0)) as journal:
        journal.write("crash", id="a")
        journal.write("start", id="b")
    read = read_journal(path, 0, 1)
    assert [event["e"] for event in read.events] == ["crash", "start"]
    assert read.torn == 1


def test_a_deleted_journal_is_put_back_whole(tmp_path: Path) -> None:
    path = tmp_path / "journal" / "0-1.jsonl"
    with contextlib.closing(JournalWriter(path, lambda: 1.0)) as journal:
        journal.write("start", id="a")
        path.unlink()
        path.parent.rmdir()
        journal.write("end", id="a")
        assert journal.read(0).count(b"\n") == 2
        journal.restore()
        journal.restore()
        journal.write("start", id="b")
    assert [event["e"] for event in read_journal(path, 0, 1).events] == ["start", "end", "start"]
