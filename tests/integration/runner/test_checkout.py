from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ci.core.errors import CommandError
from ci.runner import checkout as checkout_module
from ci.runner.checkout import checkout
from ci.runner.source import fetch


class Repository:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"git+file://{folder}"
        subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True, timeout=60)
        for key, value in {
            "user.name": "n",
            "user.email": "n@localhost",
            "commit.gpgsign": "false",
            "uploadpack.allowFilter": "true",
            "uploadpack.allowAnySHA1InWant": "true",
        }.items():
            self.git("config", key, value)

    def git(self, *words: str) -> str:
        command = ["git", "-C", str(self.folder), *words]
        return subprocess.run(command, check=True, timeout=60, capture_output=True, text=True).stdout.strip()

    def commit(self, text: str) -> str:
        for name in ("test/test_a.py", "tools/a.py", "aten/big.cpp", "version.txt"):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text, encoding="utf-8")
        self.git("add", "--all")
        self.git("commit", "-q", "-m", text)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def test_a_branch_a_tag_and_a_commit_each_give_their_own_tree(repository: Repository, tmp_path: Path) -> None:
    old = repository.commit("1")
    repository.git("tag", "v1")
    by_tag = fetch(f"{repository.address}@v1", tmp_path / "cache")
    new = repository.commit("2")
    by_branch = fetch(f"{repository.address}@main", tmp_path / "cache")
    by_commit = fetch(f"{repository.address}@{old}", tmp_path / "cache")
    assert (by_tag.sha, by_branch.sha, by_commit.sha) == (old, new, old)
    assert (by_tag.version, by_branch.version) == ("1", "2")
    assert by_commit.tests == by_tag.tests != by_branch.tests
    # What the first run reads is still what it asked for.
    assert (by_tag.tests / "test_a.py").read_text(encoding="utf-8") == "1"
    assert (by_tag.tests.parent / "tools" / "a.py").is_file()
    assert not (by_tag.tests.parent / "aten").exists()


def test_runs_that_fetch_at_once_do_not_disturb_one_another(repository: Repository, tmp_path: Path) -> None:
    first = repository.commit("1")
    repository.git("tag", "v1")
    second = repository.commit("2")
    code = """
import pathlib, sys
from ci.runner.checkout import checkout
print(checkout(sys.argv[1], pathlib.Path(sys.argv[2])).name)
"""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, f"{repository.address}@{ref}", str(tmp_path / "cache")],
            stdout=subprocess.PIPE,
            text=True,
        )
        for ref in ("v1", "main", "v1", "main")
    ]
    assert [one.communicate(timeout=120)[0].strip() for one in processes] == [first, second, first, second]


def test_a_checkout_that_was_cut_off_is_made_anew(repository: Repository, tmp_path: Path) -> None:
    repository.commit("1")
    where = f"{repository.address}@main"
    tree = checkout(where, tmp_path)
    (tree / "test" / "test_a.py").unlink()
    tree.with_name(f"{tree.name}.whole").unlink()
    (tree.parent.parent / "repository" / ".git" / "shallow.lock").touch()
    assert (checkout(where, tmp_path) / "test" / "test_a.py").is_file()


def test_a_ref_that_is_not_there_is_told_with_the_remedy(repository: Repository, tmp_path: Path) -> None:
    repository.commit("1")
    with pytest.raises(CommandError, match="can be reached and has nope"):
        checkout(f"{repository.address}@nope", tmp_path)


def test_only_the_trees_used_last_are_kept(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkout_module, "KEPT_TREES", 1)
    repository.commit("1")
    first = checkout(f"{repository.address}@main", tmp_path)
    repository.commit("2")
    second = checkout(f"{repository.address}@main", tmp_path)
    assert not first.exists()
    assert second.is_dir()
