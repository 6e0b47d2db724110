"""The user's clone is read and nothing else, whatever it is like."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import ci.bisect.trees
from ci.bisect.commits import about, check_repository, line_between, resolve
from ci.bisect.trees import MARK, Trees, remove
from ci.core.errors import FileSystemError, MissingInputError, UsageError

from .conftest import Maker


def test_a_line_is_the_commits_between_its_ends(made: Maker) -> None:
    project = made(commits=6)
    line = line_between(project.folder, project.commits[1], project.commits[4])
    assert line.commits == project.commits[1:5]
    assert line.notes == ()
    told = about(project.folder, project.commits[3])
    assert (told.subject, told.authored, told.body) == ("Change 3 (#1003)", "2023-11-15T01:13:20+00:00", "")


def test_names_are_resolved_and_bad_ones_told(made: Maker) -> None:
    project = made(commits=3)
    assert resolve(project.folder, "main~1", flag="--good") == project.commits[1]
    for wrong in ("nothing", "--all", "", "main:shout.py", "\0", "-h"):
        with pytest.raises(UsageError) as caught:
            resolve(project.folder, wrong, flag="--good")
        assert caught.value.where == "--good"
        assert "git fetch" in str(caught.value.remedy)


def test_ends_that_cannot_be_are_told(made: Maker) -> None:
    project = made(commits=4)
    with pytest.raises(UsageError, match="one commit"):
        line_between(project.folder, project.commits[1], project.commits[1])
    with pytest.raises(UsageError, match="comes before the good end") as caught:
        line_between(project.folder, project.commits[3], project.commits[1])
    assert "swap" in str(caught.value.remedy)


def test_a_good_end_on_a_branch_is_exchanged_for_where_it_parted(tmp_path: Path, made: Maker) -> None:
    project = made(commits=6)
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(project.folder), str(clone)], check=True)
    here = type(project)(folder=clone, commits=project.commits)
    here.git("checkout", "--quiet", "-b", "side", project.commits[2])
    here.git("commit", "--quiet", "--allow-empty", "--message", "aside")
    side = here.git("rev-parse", "HEAD")
    line = line_between(clone, side, project.commits[5])
    assert line.commits == project.commits[2:]
    assert "parted" in line.notes[0]
    here.git("checkout", "--quiet", "main")
    here.git("merge", "--quiet", "--no-ff", "--message", "merged", "side")
    merged = line_between(clone, project.commits[0], here.git("rev-parse", "HEAD"))
    assert side not in merged.commits
    assert "1 commits came by merges" in merged.notes[0]
    here.git("checkout", "--quiet", "--orphan", "other")
    here.git("commit", "--quiet", "--allow-empty", "--message", "apart")
    with pytest.raises(MissingInputError, match="no commit in common"):
        line_between(clone, here.git("rev-parse", "HEAD"), project.commits[5])


def test_a_shallow_clone_is_told_of(tmp_path: Path, made: Maker) -> None:
    project, clone = made(commits=6), tmp_path / "shallow"
    url = project.folder.as_uri()
    subprocess.run(["git", "clone", "--quiet", "--depth=2", url, str(clone)], check=True)
    with pytest.raises(UsageError) as caught:
        resolve(clone, project.commits[0], flag="--good")
    assert "--unshallow" in str(caught.value.remedy)
    subprocess.run(
        ["git", "-C", str(clone), "fetch", "--quiet", "--depth=1", url, project.commits[1]], check=False
    )
    if (clone / ".git" / "shallow").read_text().count("\n") > 1:
        with pytest.raises(MissingInputError, match="shallow"):
            line_between(clone, project.commits[1], project.commits[5])
    # What it has can be searched.
    trees = Trees(tmp_path / "work", clone)
    assert (trees.make(project.commits[5]) / "shout.py").is_file()


def test_no_repository(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="no such folder"):
        check_repository(tmp_path / "none")
    with pytest.raises(MissingInputError, match="is no Git repository"):
        check_repository(tmp_path)


def test_nothing_of_a_commit_or_of_the_clone_runs(tmp_path: Path, made: Maker) -> None:
    project, ran = made(commits=3), tmp_path / "ran"
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(project.folder), str(clone)], check=True)
    here = type(project)(folder=clone, commits=())
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    program.chmod(0o755)
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        (clone / ".git" / "hooks" / hook).symlink_to(program)
    here.git("config", "filter.evil.smudge", str(program))
    here.git("config", "core.fsmonitor", str(program))
    (clone / ".gitattributes").write_text("*.py filter=evil\n")
    here.git("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "add", "--all")
    here.git("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "commit", "--quiet", "-m", "x")
    ran.unlink(missing_ok=True)
    sha = here.git("-c", "core.fsmonitor=false", "rev-parse", "HEAD")
    trees = Trees(tmp_path / "work", clone)
    tree = trees.make(sha)
    assert (tree / "shout.py").is_file()
    assert (
        subprocess.run(
            ["git", "-C", str(tree), "rev-parse", "HEAD"], check=True, capture_output=True, text=True
        ).stdout.strip()
        == sha
    )
    trees.close()
    assert not ran.exists()
    assert here.git("-c", "core.fsmonitor=false", "worktree", "list").count("\n") == 0


def test_what_a_killed_search_left_is_removed_and_nothing_else(tmp_path: Path, made: Maker) -> None:
    project, work = made(commits=3), tmp_path / "work"
    left = Trees(work, project.folder).make(project.commits[0])
    (left / "build").mkdir()
    (left / "build" / "kept").touch()
    (left / "build").chmod(0o500)
    trees = Trees(work, project.folder)
    assert not left.exists()
    trees.close()
    work.mkdir()
    (work / "thesis.tex").touch()
    with pytest.raises(FileSystemError, match="not a bisect's"):
        Trees(work, project.folder)
    with pytest.raises(FileSystemError):
        remove(work)
    assert (work / "thesis.tex").exists()
    assert not (work / MARK).exists()


def test_a_tree_that_was_left_half_written_is_written_anew(tmp_path: Path, made: Maker) -> None:
    project, work = made(commits=3), tmp_path / "work"
    trees = Trees(work, project.folder)
    tree = trees.make(project.commits[0])
    trees.drop(tree)
    # As a git that was killed leaves it: known as a worktree, with some of its files.
    words = ["worktree", "add", "--quiet", "--no-checkout", "--detach", str(tree), project.commits[0]]
    subprocess.run(["git", "-C", str(work / "borrowed.git"), *words], check=True)
    assert not (tree / "shout.py").exists()
    assert (trees.make(project.commits[0]) / "shout.py").is_file()
    trees.close()


def test_a_removal_that_was_cut_off_is_gone_on_with(
    tmp_path: Path, made: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, work, gone = made(commits=3), tmp_path / "work", list[str]()
    trees = Trees(work, project.folder)
    for sha in project.commits:
        trees.make(sha)
    whole = ci.bisect.trees._remove_all

    def dies(folder: Path) -> None:
        if len(gone) == 2:
            raise KeyboardInterrupt
        gone.append(folder.name)
        whole(folder)

    with monkeypatch.context() as patched:
        patched.setattr(ci.bisect.trees, "_remove_all", dies)
        with pytest.raises(KeyboardInterrupt):
            trees.close()
    assert (work / MARK).is_file()
    Trees(work, project.folder).close()
    assert not work.exists()


def test_a_clone_without_all_files_and_one_without_any(tmp_path: Path, made: Maker) -> None:
    project = made(commits=3)
    bare, worktree = tmp_path / "bare.git", tmp_path / "aside"
    subprocess.run(["git", "clone", "--quiet", "--bare", str(project.folder), str(bare)], check=True)
    subprocess.run(["git", "-C", str(bare), "worktree", "add", "--quiet", str(worktree), "main"], check=True)
    for number, where in enumerate((bare, worktree)):
        trees = Trees(tmp_path / f"work{number}", where)
        assert (trees.make(project.commits[0]) / "shout.py").is_file()
        trees.close()
