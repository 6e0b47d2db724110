"""The user's clone is read and nothing else, whatever it is like."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from ci.bisect.repository import Trees, candidate, commits_between, remove, resolve
from ci.core.errors import UsageError

from .conftest import Maker, Project


def clone_of(project: Project, folder: Path, *words: str) -> Project:
    subprocess.run(["git", "clone", "--quiet", *words, project.folder.as_uri(), str(folder)], check=True)
    return Project(folder=folder, commits=project.commits)


def test_names_are_resolved_and_the_commits_between_are_listed(made: Maker) -> None:
    project = made(commits=6)
    assert resolve(project.folder, "main~1", flag="--good") == project.commits[4]
    assert (
        tuple(commits_between(project.folder, project.commits[1], project.commits[4])) == project.commits[1:5]
    )
    told = candidate(project.folder, project.commits[3])
    assert (told.subject, told.authored, told.pull_request) == (
        "Change 3 (#1003)",
        "2023-11-15T01:13:20+00:00",
        1003,
    )
    for wrong in ("nothing", "--all", "", "main:shout.py", "-h"):
        with pytest.raises(UsageError, match="is not a commit of") as caught:
            resolve(project.folder, wrong, flag="--good")
        assert caught.value.where == "--good"
    for good, bad in ((1, 1), (3, 1)):
        with pytest.raises(UsageError, match="is the good commit, or comes before it") as caught:
            commits_between(project.folder, project.commits[good], project.commits[bad])
        assert "swap" in str(caught.value.remedy)


def test_a_good_end_on_a_branch_is_replaced_by_where_it_branched_off(tmp_path: Path, made: Maker) -> None:
    here = clone_of(made(commits=6), tmp_path / "clone")
    here.git("checkout", "--quiet", "-b", "side", here.commits[2])
    here.git("commit", "--quiet", "--allow-empty", "--message", "aside")
    side = here.git("rev-parse", "HEAD")
    assert tuple(commits_between(here.folder, side, here.commits[5])) == here.commits[2:]
    here.git("checkout", "--quiet", "main")
    here.git("merge", "--quiet", "--no-ff", "--message", "merged", "side")
    assert side not in commits_between(here.folder, here.commits[0], here.git("rev-parse", "HEAD"))
    here.git("checkout", "--quiet", "--orphan", "other")
    here.git("commit", "--quiet", "--allow-empty", "--message", "apart")
    with pytest.raises(UsageError, match="no history in common") as caught:
        commits_between(here.folder, here.git("rev-parse", "HEAD"), here.commits[5])
    assert "--unshallow" in str(caught.value.remedy)


def test_a_shallow_clone_in_which_commits_are_missing_is_refused(tmp_path: Path, made: Maker) -> None:
    project = clone_of(made(commits=9), tmp_path / "clone")
    project.git("checkout", "--quiet", "-b", "side", project.commits[2])
    project.git("commit", "--quiet", "--allow-empty", "--message", "aside")
    project.git("checkout", "--quiet", "main")
    project.git("merge", "--quiet", "--no-ff", "--message", "merged", "side")
    shallow = clone_of(project, tmp_path / "shallow", "--depth=4", "--branch=main").folder
    good, bad = project.commits[2], project.git("rev-parse", "main")
    with pytest.raises(UsageError, match="the clone is shallow: commits between") as caught:
        commits_between(shallow, good, bad)
    assert "--unshallow" in str(caught.value.remedy)
    assert commits_between(shallow, project.commits[7], bad) == [project.commits[7], project.commits[8], bad]


@pytest.mark.parametrize(
    "kind", ["whole", "--bare", "--depth=2", "--filter=blob:none", "worktree", "explicit"]
)
def test_every_kind_of_clone_gives_trees(
    tmp_path: Path, made: Maker, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    project = made(commits=3)
    project.git("config", "uploadpack.allowFilter", "true")
    words = [kind] if kind.startswith("--") else []
    here = clone_of(project, tmp_path / "clone", *words).folder
    if kind == "worktree":
        subprocess.run(
            ["git", "-C", str(here), "worktree", "add", "--quiet", str(tmp_path / "w")], check=True
        )
        here = tmp_path / "w"
    elif kind == "explicit":
        (tmp_path / "config").write_text("[safe]\nbareRepository = explicit\n")
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    trees = Trees(tmp_path / "work", here)
    tree = trees.make(project.commits[2])
    assert (tree / "shout.py").is_file()
    head = subprocess.run(
        ["git", "-C", str(tree), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    )
    assert head.stdout.strip() == project.commits[2]
    project.git("config", "--unset", "uploadpack.allowFilter")


def test_nothing_of_a_commit_or_of_the_clone_runs(tmp_path: Path, made: Maker) -> None:
    here, ran = clone_of(made(commits=3), tmp_path / "clone"), tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    program.chmod(0o755)
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        (here.folder / ".git" / "hooks" / hook).symlink_to(program)
    here.git("config", "filter.evil.smudge", str(program))
    here.git("config", "core.fsmonitor", str(program))
    (here.folder / ".gitattributes").write_text("*.py filter=evil\n")
    quiet = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
    here.git(*quiet, "add", "--all")
    here.git(*quiet, "commit", "--quiet", "-m", "x")
    ran.unlink(missing_ok=True)
    trees = Trees(tmp_path / "work", here.folder)
    assert (trees.make(here.git(*quiet, "rev-parse", "HEAD")) / "shout.py").is_file()
    assert not ran.exists()
    assert here.git(*quiet, "worktree", "list").count("\n") == 0


def test_a_folder_that_nobody_may_open_is_removed() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as top:
        Path(top).chmod(0o777)
        root = os.geteuid() == 0  # who may open everything
        if root:
            os.seteuid(65534)
        try:
            (Path(top) / "work" / "build" / "kept").mkdir(parents=True)
            (Path(top) / "work" / "build").chmod(0)
            remove(Path(top) / "work")
        finally:
            if root:
                os.seteuid(0)
        assert not (Path(top) / "work").exists()


def test_what_a_killed_search_left_is_removed_read_only_or_half_written(tmp_path: Path, made: Maker) -> None:
    project, work = made(commits=3), tmp_path / "work"
    left = Trees(work, project.folder).make(project.commits[0])
    (left / "build").mkdir()
    (left / "build" / "kept").touch()
    (left / "build").chmod(0o500)
    trees = Trees(work, project.folder)
    assert not left.exists()
    # As a git that was killed leaves it: known as a worktree, with some of its files.
    words = ["worktree", "add", "--quiet", "--no-checkout", "--detach", str(left), project.commits[0]]
    subprocess.run(["git", "-C", str(work / "borrowed.git"), *words], check=True)
    assert (trees.make(project.commits[0]) / "shout.py").is_file()
    remove(work)
    assert not work.exists()
    remove(work)
