"""Trees of a real repository: one that was pruned is checked out again, and one in use stays."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from ci.cli.app import run
from ci.runner.checkout import checkout
from tests.repositories import git

DAY_S = 24 * 3600.0


def prune(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["prune", "--only", "worktrees", "--only", "caches", "--json", *words]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def test_a_tree_that_was_pruned_is_checked_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "pytorch"
    (source / "test").mkdir(parents=True)
    (source / "test" / "test_a.py").write_text("x = 1\n")
    git(source, "init", "--quiet", "--initial-branch=main")
    git(source, "config", "uploadpack.allowFilter", "true")
    git(source, "add", ".")
    git(source, "commit", "--quiet", "-m", "first")
    where, cache = f"git+file://{source}@main", tmp_path / ".spyre-ci" / "sources"
    tree = checkout(where, cache)
    assert [one["why"] for one in prune(capsys, "--keep-days", "0", "--keep-last", "0")["kept"]] == [
        "used within the last day"
    ]
    old = time.time() - 40 * DAY_S
    for path in (tree, tree.with_name(f"{tree.name}.whole")):
        os.utime(path, (old, old))
    told = prune(capsys, "--keep-last", "0")
    assert [one["path"] for one in told["removed"]] == [str(tree)]
    assert list(tree.parent.iterdir()) == []
    assert git(source, "worktree", "list").count("\n") == 0
    again = checkout(where, cache)
    assert again == tree
    assert (again / "test" / "test_a.py").read_text() == "x = 1\n"
