from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci.core.errors import MissingInputError
from ci.steps.folder import (
    NotedSource,
    RunFolder,
    find_run,
    new_run_folder,
    noted_where,
    read_source,
    write_source,
)


def test_a_run_folder_is_never_taken_twice(tmp_path: Path) -> None:
    made = [new_run_folder(tmp_path, device="spyre", label="stage1", epoch_s=0) for _ in range(3)]
    assert [one.run for one in made] == [f"19700101-000000-spyre-stage1{n}" for n in ("", "-2", "-3")]


def test_a_past_run_is_found_by_path_by_id_and_as_the_latest(tmp_path: Path) -> None:
    for age, name in enumerate(("z", "a", "dry")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("{}", encoding="utf-8")
        os.utime(tmp_path / name / "run.json", (age, age))
    for name in ("z", "a"):
        (tmp_path / name / "results").touch()
    assert find_run(tmp_path, "a", holding="results").run == "a"
    assert find_run(tmp_path, str(tmp_path / "a"), holding="results").run == "a"
    assert find_run(tmp_path, "latest", holding="results").run == "a"
    assert find_run(tmp_path, "latest-0", holding="results").run == "a"
    assert find_run(tmp_path, "latest-1", holding="results").run == "z"


def test_a_run_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="there is no run 'x'"):
        find_run(tmp_path, "x", holding="results")
    for latest in ("latest", "latest-1"):
        with pytest.raises(MissingInputError, match="there is no run with results yet"):
            find_run(tmp_path, latest, holding="results")
    (tmp_path / "one").mkdir()
    for name in ("run.json", "results"):
        (tmp_path / "one" / name).touch()
    with pytest.raises(MissingInputError, match="there is no run latest-1: only 1 with results"):
        find_run(tmp_path, "latest-1", holding="results")


def test_where_the_tests_came_from_is_kept(tmp_path: Path) -> None:
    folder = new_run_folder(tmp_path, device="cpu", label="x", epoch_s=0)
    write_source(folder, where=None, sha="abc")
    assert read_source(folder) == NotedSource(sha="abc")
    write_source(folder, where="pytorch", sha="abc", files=["a.py"])
    assert read_source(folder) == NotedSource(where="pytorch", sha="abc", files=["a.py"])
    assert [noted_where(one) for one in (folder, RunFolder(path=tmp_path))] == ["pytorch", None]
    assert read_source(RunFolder(path=tmp_path)) is None
