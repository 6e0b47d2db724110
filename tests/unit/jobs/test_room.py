"""What a run folder has of another job's journals is moved out of the way, and what is this job's stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ci.jobs.record import JobRecord
from ci.jobs.room import FILE, make_room

RECORD = JobRecord(
    name="tests-calm-otter-1f2e3", namespace="default", kind="tests", run="some-1-1", image="", commit="",
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


def test_what_nobody_knows_of_is_moved_and_what_is_gathered_then_stays(folder: Path) -> None:
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


def test_a_note_that_is_broken_names_nobody(folder: Path) -> None:
    (folder / FILE).write_text("{")
    assert make_room(folder, RECORD.run, RECORD) is not None


def test_an_empty_folder_has_nothing_to_move(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    assert make_room(tmp_path, RECORD.run, RECORD) is None
    assert not (tmp_path / "earlier").exists()
