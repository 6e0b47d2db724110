"""Which of GitHub's releases go to an index, asked of real repositories."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ci.cli.app import run

from .repository import Repository


@pytest.fixture
def clone(tmp_path: Path) -> Repository:
    """A clone with the whole history, as actions/checkout makes it with fetch-depth: 0."""
    (tmp_path / "origin").mkdir()
    origin = Repository(tmp_path / "origin")
    origin.git("init", "--quiet", "--initial-branch=main")
    origin.commit({"a.py": "1\n"})
    origin.git("tag", "v1.0")
    origin.commit({"a.py": "2\n"})
    origin.git("checkout", "--quiet", "-b", "other")
    origin.commit({"a.py": "3\n"})
    origin.git("tag", "v9.0")
    made = Repository(tmp_path / "clone")
    origin.git("clone", "--quiet", str(origin.folder), str(made.folder))
    return made


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clone: Repository) -> Path:
    """The file that takes outputs, in a job that a release began."""
    for name in [name for name in os.environ if name.startswith(("GITHUB_", "JENKINS", "CHANGE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(clone.folder)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_EVENT_NAME", "release")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(tmp_path / "event.json"))
    return tmp_path / "outputs.json"


def released(told: Path, branch: str = "main", **release: Any) -> int:
    content = {"release": {"prerelease": False, "draft": False, **release}}
    payload = {**content, "repository": {"default_branch": branch}}
    (told.parent / "event.json").write_text(json.dumps(payload))
    return run(["pipeline", "changes", "--out", str(told)])


def test_a_release_of_what_was_merged_is_published(clone: Repository, told: Path) -> None:
    clone.git("checkout", "--quiet", "v1.0")
    assert released(told) == 0
    assert json.loads(told.read_text())["release"] is True


@pytest.mark.parametrize(
    "release", [{"prerelease": True}, {"draft": True}, {"prerelease": None}, {"draft": "false"}]
)
def test_a_prerelease_is_not_published(
    clone: Repository, told: Path, capsys: pytest.CaptureFixture[str], release: dict[str, Any]
) -> None:
    clone.git("checkout", "--quiet", "v1.0")
    assert released(told, **release) == 0
    assert json.loads(told.read_text())["release"] is False
    assert "a prerelease or a draft goes to no index" in capsys.readouterr().out


def test_a_tag_that_was_never_merged_ends_the_job(
    clone: Repository, told: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clone.git("checkout", "--quiet", "v9.0")
    assert released(told) == 1
    assert "what is released is not on main" in capsys.readouterr().err
    assert not told.exists()


@pytest.mark.parametrize("branch", ["gone", "", "--all", "../tags/v9.0"])
def test_a_branch_that_is_not_there_ends_the_job(
    clone: Repository, told: Path, capsys: pytest.CaptureFixture[str], branch: str
) -> None:
    clone.git("checkout", "--quiet", "v9.0")
    assert released(told, branch) == 2
    assert "whether the release was merged is not known" in capsys.readouterr().err


def test_what_is_no_release_releases_nothing(told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_EVENT_NAME", "workflow_dispatch")
    assert released(told) == 0
    assert json.loads(told.read_text())["release"] is False
