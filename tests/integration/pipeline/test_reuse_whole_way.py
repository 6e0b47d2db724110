"""From a pull request's run to the merge queue's, with real verbs, tests and repositories in between."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci.cli.app import run
from ci.report.results import read_summary
from tests.github_api import GitHubApi, artifact, pull, workflow_run
from tests.pipeline_runs import zipped

pytestmark = pytest.mark.nightly
Event = Callable[[str, Any], None]
WHO = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
SMALL = """\
import unittest


class TestSmall(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(1 + 1, 2)

    def test_product(self):
        self.assertEqual(2 * 2, 4)
"""
SETTINGS = """\
report: {endpoint: none}
pytorch: {source: TREE, files: [test_small.py]}
stage: 1
stages:
  {1: {percent: 100, cards: 2}, 2: {percent: 100}, 3: {percent: 100}, 4: {percent: 100}, 5: {percent: 100}}
"""


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *WHO, *words], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


def change(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    git(folder, "add", name)
    git(folder, "commit", "-q", "-m", name)
    return git(folder, "rev-parse", "HEAD")


def checked_out(origin: Path, folder: Path, ref: str) -> Path:
    """What a job checks out, in a folder of its own."""
    git(origin.parent, "init", "-q", str(folder))
    git(folder, "remote", "add", "origin", f"file://{origin}")
    git(folder, "fetch", "-q", "origin", ref)
    git(folder, "checkout", "-q", "--detach", "FETCH_HEAD")
    return folder


@pytest.mark.usefixtures("job")
def test_what_a_pull_request_s_run_found_is_taken_by_the_queue_and_by_no_other(
    api: GitHubApi, tmp_path: Path, tree: Path, event: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "test" / "test_small.py").write_text(SMALL)
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "-q", "-b", "main")
    change(origin, ".gitignore", "runs/\n.spyre-ci/\n")
    base = change(origin, "spyre-ci.yaml", SETTINGS.replace("TREE", str(tree)))
    git(origin, "checkout", "-q", "-b", "feature")
    head = change(origin, "a.py", "a = 1\n")
    git(origin, "update-ref", "refs/pull/7/head", head)
    git(origin, "checkout", "-q", "--detach", base)
    git(origin, "merge", "-q", "--no-ff", "--no-edit", head)
    git(origin, "update-ref", "refs/pull/7/merge", "HEAD")
    git(origin, "checkout", "-q", "--detach", base)
    git(origin, "merge", "-q", "--squash", head)
    git(origin, "commit", "-q", "-m", "feature (#7)")
    group = git(origin, "rev-parse", "HEAD")
    git(origin, "update-ref", "refs/heads/queue", group)
    monkeypatch.setenv("SPYRE_CI_IMAGE", f"quay.io/o/i@sha256:{'1' * 64}")
    monkeypatch.setenv("GITHUB_WORKFLOW_REF", "o/r/.github/workflows/pull-request.yml@refs/heads/main")

    theirs = checked_out(origin, tmp_path / "theirs", "refs/pull/7/merge")
    monkeypatch.chdir(theirs)
    for words in (["pipeline", "plan"], ["run", "--run-dir", "runs/ci"], ["report", "--run-dir", "runs/ci"]):
        assert run([*words, *(["--run-dir", "runs/ci"] if words[0] == "pipeline" else [])]) == 0
    found = read_summary(theirs / "runs" / "ci" / "summary.json")
    data = zipped(theirs / "runs" / "ci")
    repository = api.repositories["o/r"]
    repository.pulls = {7: pull(7, sha=head)}
    repository.runs[50] = workflow_run(50, sha=head)
    repository.artifacts[50] = artifact(50, "results", run=50, size=len(data))
    repository.blobs[50] = data

    ours = checked_out(origin, tmp_path / "ours", "refs/heads/queue")
    monkeypatch.chdir(ours)
    ref = f"refs/heads/gh-readonly-queue/main/pr-7-{base}"
    event("merge_group", {"merge_group": {"head_sha": group, "head_ref": ref, "base_sha": base}})
    assert run(["pipeline", "plan", "--run-dir", "runs/ci"]) == 0
    shutil.copytree(ours / "runs" / "ci", ours / "runs" / "again")
    assert run(["pipeline", "reuse", "runs/ci", "--out", "out.json"]) == 0
    told = json.loads((ours / "out.json").read_text())
    assert told["reused"] is True, told
    taken = read_summary(ours / "runs" / "ci" / "summary.json")
    assert taken.verdicts == found.verdicts
    assert taken.planned == found.planned > 0
    assert "nothing ran here" in taken.notes[0]

    # The same plan after a change that was not in the pull request's run: nothing is taken.
    change(ours, "b.py", "b = 1\n")
    moved = git(ours, "rev-parse", "HEAD")
    event("merge_group", {"merge_group": {"head_sha": moved, "head_ref": ref, "base_sha": base}})
    assert run(["pipeline", "reuse", "runs/again", "--out", "out.json"]) == 0
    assert json.loads((ours / "out.json").read_text())["reused"] is False
