"""What a test deletes of its run's folder is put back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ci.runner.guard import guarded


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
