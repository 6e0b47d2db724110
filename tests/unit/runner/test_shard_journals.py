"""What a test deletes of its run's folder is put back."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ci.core.errors import CommandError, DiskFullError
from ci.record import events
from ci.record.journal import attempts_before, read_journals, run_attempt_of
from ci.runner import shard_journals as module
from ci.runner.shard_journals import Attempts, explained, guarded, new_attempt
from test_selection.plan import Group, Shard
from tests.journal_rows import rows_of


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A folder of a run that has begun."""
    folder = tmp_path / "run"
    (folder / "journal").mkdir(parents=True)
    for name in ("plan.json", "run.json", ".run.lock", "journal/0-1.jsonl"):
        (folder / name).write_text(name)
    return folder


def test_what_is_deleted_is_put_back_and_told_of(run_dir: Path) -> None:
    said: list[str] = []
    with guarded(run_dir, said.append):
        shutil.rmtree(run_dir)
    found = {path.relative_to(run_dir).as_posix() for path in run_dir.rglob("*") if path.is_file()}
    assert found == {"plan.json", "run.json", "journal/0-1.jsonl"}
    assert (run_dir / "plan.json").read_text() == "plan.json"
    assert said == [f"a test deleted files of {run_dir}; they were put back: plan.json, run.json, 0-1.jsonl"]


def test_what_is_there_is_left_alone(run_dir: Path) -> None:
    said: list[str] = []
    with guarded(run_dir, said.append):
        (run_dir / "plan.json").write_text("another")
    assert (run_dir / "plan.json").read_text() == "another"
    assert said == []


def test_what_cannot_be_put_back_is_told_of_and_hides_no_error_of_the_run(run_dir: Path) -> None:
    said: list[str] = []

    def run() -> None:
        with guarded(run_dir, said.append):
            shutil.rmtree(run_dir)
            run_dir.write_text("a file in its place")
            raise KeyError

    with pytest.raises(KeyError):
        run()
    assert len(said) == 1
    assert f"a test deleted 3 files of {run_dir}, which cannot be put back: " in said[0]


def test_a_folder_that_is_not_there_has_nothing_to_guard(tmp_path: Path) -> None:
    with guarded(tmp_path / "none", print):
        pass


SHARD = Shard(index=3, expected_s=1, groups=(Group(file="a.py", ids=("a.py::x", "a.py::y")),))


class Heard(list[tuple[int, events.JournalEvent]]):
    def __call__(self, shard: int, event: events.JournalEvent) -> None:
        self.append((shard, event))


def made(run_dir: Path, heard: Heard | None = None) -> Attempts:
    return Attempts(run_dir, doubts={3: {"cut off": ["a.py::x"]}}, listen=Heard() if heard is None else heard)


def test_doubts_are_told_in_the_first_attempt_and_nowhere_else(tmp_path: Path) -> None:
    attempts = made(tmp_path)
    first = attempts.begin(SHARD)
    assert (first.shard, first.number, first.planned) == (3, 1, 2)
    second = attempts.begin(SHARD)
    assert attempts.of(SHARD) == second
    one, two = read_journals(tmp_path)
    assert [(row["e"], row["ids"], row["message"]) for row in rows_of(one.events)] == [
        ("resumed", ["a.py::x"], "cut off")
    ]
    assert two.events == []


def test_a_job_that_is_run_again_takes_no_name_of_the_one_before(tmp_path: Path) -> None:
    assert [attempts_before(one) for one in (1, 2, 3)] == [0, 100, 200]
    assert [run_attempt_of(one) for one in (1, 100, 101, 200, 201)] == [1, 1, 2, 2, 3]
    made(tmp_path).begin(SHARD)
    attempts = Attempts(tmp_path, doubts={}, listen=Heard(), after=attempts_before(2))
    assert [attempts.begin(SHARD).number for _ in range(2)] == [101, 102]
    assert {path.name for path in (tmp_path / "journal").iterdir()} == {
        "3-1.jsonl",
        "3-101.jsonl",
        "3-102.jsonl",
    }


def test_a_shard_that_nobody_came_to_has_a_journal_when_something_is_said_of_it(tmp_path: Path) -> None:
    attempts = made(tmp_path)
    attempts.write(attempts.of(SHARD), events.NotRun(ids=["a.py::y"], message="no card"))
    assert attempts.begun
    assert attempts.of(SHARD).journal.exists()
    assert [event["e"] for event in rows_of(read_journals(tmp_path)[0].events)] == ["resumed", "not_run"]


def test_deleted_journals_are_put_back_as_they_were(tmp_path: Path) -> None:
    attempts = made(tmp_path)
    attempt = attempts.begin(SHARD)
    attempts.write(attempt, events.ShardEnd(status="done"))
    content = attempt.journal.read_bytes()
    attempt.journal.unlink()
    attempt.journal.parent.rmdir()
    attempts.close()
    assert attempt.journal.read_bytes() == content


def test_a_journal_that_its_worker_wrote_anew_is_guarded_anew_and_left_alone(tmp_path: Path) -> None:
    attempts = made(tmp_path)
    attempt = attempts.begin(SHARD)
    anew = attempt.journal.read_bytes() + b"anew\n"
    attempt.journal.unlink()
    attempt.journal.write_bytes(anew[:10])
    attempts.guard(attempt.journal)  # it is just being put back
    attempt.journal.write_bytes(anew)
    attempts.guard(attempt.journal)
    attempt.journal.unlink()
    attempts.close()
    assert attempt.journal.read_bytes() == anew
    attempts.close()  # twice is no error


def test_a_journal_is_read_on_where_a_test_has_deleted_it_and_where_it_was_put_back(tmp_path: Path) -> None:
    attempts = made(tmp_path)
    path = attempts.begin(SHARD).journal
    start = path.stat().st_size
    with path.open("ab") as child:
        child.write(b"one\n")
        child.flush()
        path.unlink()
        child.write(b"two\n")
        child.flush()
        assert attempts.read(path, start) == b"one\ntwo\n"
    path.parent.rmdir()
    assert attempts.read(path, start + 4) == b"two\n"
    path.parent.write_bytes(b"a file in the folder's place")
    assert attempts.read(path, start + 4) == b"two\n"
    path.parent.unlink()
    path.parent.mkdir()
    path.write_bytes(attempts.read(path, 0) + b"three\n")
    assert attempts.read(path, start + 8) == b"three\n"
    attempts.close()


def test_what_is_said_of_a_deleted_journal_takes_nothing_from_it(tmp_path: Path) -> None:
    attempts = made(tmp_path)
    attempt = attempts.begin(SHARD)
    attempts.write(attempt, events.End(id="a.py::x", outcome="passed"))
    attempt.journal.unlink()
    attempts.write(attempt, events.WorkerLost(id="a.py::y", message="gone"))
    assert attempts.begin(SHARD).number == attempt.number + 1
    attempts.close()
    first = read_journals(tmp_path)[0]
    assert [event["e"] for event in rows_of(first.events)] == ["resumed", "end", "worker_lost"]


def test_a_journal_that_cannot_be_written_is_told_of(tmp_path: Path) -> None:
    heard = Heard()
    attempts = made(tmp_path, heard)
    attempt = attempts.begin(SHARD)
    attempt.journal.unlink()
    attempt.journal.mkdir()
    attempts.write(attempt, events.NotRun(ids=[], message=""))
    ((shard, event),) = heard
    assert shard == 3
    assert isinstance(event, events.WorkerLost)
    assert str(attempt.journal) in event.message
    attempts.close()


def test_what_the_disk_refuses_has_a_remedy(tmp_path: Path) -> None:
    with (
        pytest.raises(CommandError, match="shard 3 cannot be started") as caught,
        explained(tmp_path, "shard 3 cannot be started"),
    ):
        raise PermissionError(13, "no")
    assert f"the rights of {tmp_path}" in str(caught.value.remedy)
    with pytest.raises(DiskFullError), explained(tmp_path, "x"):
        raise OSError(28, "full")


@pytest.mark.parametrize("by_descriptor", [True, False])
def test_what_is_said_after_a_journal_was_deleted_stands_after_what_was_said_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_descriptor: bool
) -> None:
    if not by_descriptor:  # as where there is no /proc
        monkeypatch.setattr(module, "_DESCRIPTORS", tmp_path / "none")
    heard = Heard()
    attempts = made(tmp_path, heard)
    attempt = attempts.begin(SHARD)
    attempt.journal.unlink()
    attempts.write(attempt, events.NotRun(ids=["a.py::y"], message="no card"))
    attempts.write(attempt, events.ShardEnd(status="done"))
    attempts.close()
    (journal,) = read_journals(tmp_path)
    assert [event["e"] for event in rows_of(journal.events)] == ["resumed", "not_run", "shard_end"]
    assert heard == []


def test_the_name_of_a_new_journal_is_on_the_disk_before_anything_is_written_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[os.stat_result, bool, bool]] = []
    journal = tmp_path / "run" / "journal" / "3-1.jsonl"

    def note(descriptor: int, *, whole: bool = False) -> None:
        synced.append((os.fstat(descriptor), whole, journal.exists()))

    monkeypatch.setattr("ci.runner.shard_journals.bring_to_disk", note)
    made = new_attempt(tmp_path / "run", 3, 7)
    assert (made.number, made.journal, made.planned) == (1, journal, 7)
    for folder in (journal.parent, tmp_path / "run"):
        assert any(
            os.path.samestat(status, folder.stat()) and whole and there for status, whole, there in synced
        )
    assert new_attempt(tmp_path / "run", 3, 7).number == 2
