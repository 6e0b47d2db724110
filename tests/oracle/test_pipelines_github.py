"""What pipelines say to GitHub and take from it: comments, statuses, a pull request's results, webhooks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.github_api import TOKEN, GitHubApi, Repository, artifact, pull, workflow_run
from tests.oracle.conftest import ROOT, STAND_IN, Desk, Said, make_desk
from tests.pipeline_runs import report_folder, zipped
from tests.repositories import git

BOT = "github-actions[bot]"
WORKFLOW = ".github/workflows/pull-request.yml"
SECRET = "correct-horse-battery-staple"
HOOK = "https://jenkins.example.com/github-webhook/"
NOW = {"t.py::A::test_ok": "passed", "t.py::A::test_bad": "failed", "t.py::B::test_old": "failed"}
THEN = NOW | {"t.py::A::test_bad": "passed"}


@pytest.fixture
def api() -> Iterator[GitHubApi]:
    with GitHubApi() as server:
        server.repositories["o/r"] = Repository(pulls={7: pull(7, head="fork/r")})
        yield server


@pytest.fixture
def job(tmp_path: Path, api: GitHubApi) -> Desk:
    """A job of o/r, in a checkout that has the workflow."""
    desk = make_desk(tmp_path, stand_in=True)
    desk.write(WORKFLOW, "")
    return replace(desk, environ=desk.environ | of_job(api))


def of_job(api: GitHubApi) -> dict[str, str]:
    return {
        "GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "55", "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_API_URL": api.url, "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "o/r",
        "GITHUB_TOKEN": TOKEN,
    }  # fmt: skip


def after(desk: Desk, name: str, payload: Any) -> dict[str, str]:
    """The environment of a job that an event began."""
    path = desk.folder.parent / "event.json"
    path.write_text(json.dumps(payload), encoding="utf-8")
    return {"GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(path)}


def hand_on(api: GitHubApi, folder: Path, run: dict[str, Any], name: str = "results") -> None:
    """Let a run have handed this folder on."""
    repository, number = api.repositories["o/r"], next(api.ids)
    data = zipped(folder)
    repository.runs[run["id"]] = run
    repository.artifacts[number] = artifact(number, name, run=run["id"], size=len(data))
    repository.blobs[number] = data


def bodies(api: GitHubApi, login: str = BOT) -> list[str]:
    rows = api.repositories["o/r"].comments.values()
    return [row["body"] for row in rows if row["user"]["login"] == login]


def comment(desk: Desk, number: int, *, conclusion: str = "failure", code: int = 0) -> Said:
    """Comment on what a run of a fork's pull request came to."""
    run = ended(number, conclusion)
    said = desk.call("pipeline", "comment", code=code, **after(desk, "workflow_run", {"workflow_run": run}))
    assert TOKEN not in said.out + said.err
    return said


def ended(number: int, conclusion: str = "failure") -> dict[str, Any]:
    return workflow_run(number, head="fork/r", conclusion=conclusion)


@pytest.mark.gate
def test_a_pull_request_has_one_comment_that_is_kept_up_to_date(
    api: GitHubApi, job: Desk, tmp_path: Path
) -> None:
    stranger = {"id": 1, "issue": 7, "body": "<!-- spyre-ci:comment:pull-request:99:1 -->\nmine"}
    api.repositories["o/r"].comments[1] = {**stranger, "user": {"login": "stranger"}}
    main = workflow_run(40, event="push", branch="main", sha="c" * 40)
    hand_on(api, report_folder(tmp_path / "main", THEN), main)
    hand_on(api, report_folder(tmp_path / "first", NOW), ended(50))
    comment(job, 50)
    (body,) = bodies(api)
    assert "2 of 3 tests failed" in body
    assert "AssertionError: 1 != 2" in body
    assert "**1 newly failing**\n  - `t.py::A::test_bad`" in body
    assert "**1 still failing**\n  - `t.py::B::test_old`" in body
    green = dict.fromkeys(NOW, "passed") | {"t.py::B::test_old": "flaky"}
    hand_on(api, report_folder(tmp_path / "second", green), ended(51, "success"))
    comment(job, 51, conclusion="success")
    (body,) = bodies(api)
    assert "nothing failed" in body
    assert "Flaky (1)" in body


@pytest.mark.gate
def test_nothing_of_a_comment_is_lost_or_written_over(api: GitHubApi, job: Desk, tmp_path: Path) -> None:
    hand_on(api, report_folder(tmp_path / "run", NOW), ended(51))
    stranger = {"id": 1, "issue": 7, "body": "<!-- spyre-ci:comment:pull-request:99:1 -->\nmine"}
    api.repositories["o/r"].comments[1] = {**stranger, "user": {"login": "stranger"}}
    # It was written, and the answer was lost.
    api.fail("cut", method="POST", path="comments", taken=True)
    comment(job, 51)
    (body,) = bodies(api)
    assert "run 51" in body
    # An earlier run that ends later does not take its place.
    hand_on(api, report_folder(tmp_path / "earlier", dict.fromkeys(NOW, "passed")), ended(50))
    comment(job, 50)
    assert bodies(api) == [body]
    assert bodies(api, "stranger") == [stranger["body"]]
    hand_on(api, report_folder(tmp_path / "later", NOW), ended(52))
    api.repositories["o/r"].writers = set()
    comment(job, 52, code=2)
    api.repositories["o/r"].writers = None
    # Its pull request has moved on.
    api.repositories["o/r"].pulls = {7: pull(7, head="fork/r", sha="d" * 40)}
    comment(job, 52)
    assert bodies(api) == [body]


def test_hostile_text_of_a_run_is_text_in_its_comment(api: GitHubApi, job: Desk, tmp_path: Path) -> None:
    names = ("t.py::A::<img src=x onerror=alert(1)>", "t.py::A::`x` @everyone", "t.py::A::a\u202eb")
    folder = report_folder(tmp_path / "run", dict.fromkeys(names, "failed"))
    hand_on(api, folder, ended(50))
    jobs = [{"name": "leg `1` @all", "conclusion": "cancelled", "html_url": "javascript:alert(1)"}]
    api.repositories["o/r"].jobs[50] = jobs
    evil = zipped(folder, extra={"../../evil": b"x"})
    api.repositories["o/r"].artifacts[901] = artifact(901, "results-x", run=50, size=len(evil))
    api.repositories["o/r"].blobs[901] = evil
    comment(job, 50)
    (body,) = bodies(api)
    assert "3 of 3 tests failed" in body
    assert "no results" in body
    # What is not between backquotes is Markdown, and is to be harmless.
    outside = "".join(body.replace("``", "").split("`")[::2])
    assert "<img" not in outside
    for text in ("javascript:", "@all", "\u202e"):
        assert text not in body
    assert not [path for path in tmp_path.rglob("evil") if path.is_file()]


@pytest.mark.gate
def test_a_dry_run_prints_the_comment_and_asks_nobody(api: GitHubApi, job: Desk) -> None:
    report_folder(job.folder / "runs" / "ci", NOW)
    said = job.call("pipeline", "comment", "runs/ci", "--dry-run")
    assert "2 of 3 tests failed" in said.out
    assert api.seen == []
    said = job.call("pipeline", "comment", "runs/ci", "--pull-request", "7", "--name", "mine")
    assert len(bodies(api)) == 1


@pytest.mark.gate
def test_a_commits_status_is_that_of_its_newest_build(api: GitHubApi, job: Desk) -> None:
    given = ("pipeline", "status", "--repository", "o/r", "--sha", "a" * 40, "--context", "jenkins/pr")
    for build, state in ((5, "pending"), (6, "success"), (5, "failure")):
        job.call(*given, "--state", state, "--url", f"https://ci.example.org/job/pr/{build}/")
    newest = api.repositories["o/r"].statuses["a" * 40][0]
    assert (newest["state"], newest["context"], newest["target_url"]) == (
        "success", "jenkins/pr", "https://ci.example.org/job/pr/6/",
    )  # fmt: skip
    asked = len(api.seen)
    for wrong in (("--url", "https://u:secret@ci/1"), ("--sha", "main")):
        said = job.call(*given, "--state", "success", *wrong, code=2)
        assert "secret" not in said.out + said.err
    assert len(api.seen) == asked


# --- reuse in a merge queue


def snapshot(folder: Path) -> Path:
    """This toolkit as a commit of its own: of work that is not committed nobody knows what it is."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "-z"],
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    for name in listed.stdout.split("\0"):
        if name and (ROOT / name).is_file() and not name.startswith(("tests/", "docs/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--message", "toolkit")
    return folder


def change(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    git(folder, "add", name)
    git(folder, "commit", "--quiet", "--message", name)
    return git(folder, "rev-parse", "HEAD")


def checked_out(origin: Path, folder: Path, ref: str) -> Path:
    """What a job checks out."""
    folder.mkdir()
    git(folder, "init", "--quiet")
    git(folder, "remote", "add", "origin", origin.as_uri())
    git(folder, "fetch", "--quiet", "origin", ref)
    git(folder, "checkout", "--quiet", "--detach", "FETCH_HEAD")
    return folder


def queue_of(origin: Path, settings: str) -> tuple[str, str, str]:
    """A repository with pull request 7 in its merge queue: its base, its head and the queue's commit."""
    origin.mkdir()
    git(origin, "init", "--quiet", "--initial-branch=main")
    change(origin, ".gitignore", "runs/\n.spyre-ci/\nout.json\n")
    base = change(origin, "spyre-ci.yaml", settings)
    git(origin, "checkout", "--quiet", "-b", "feature")
    head = change(origin, "a.py", "a = 1\n")
    git(origin, "update-ref", "refs/pull/7/head", head)
    git(origin, "checkout", "--quiet", "--detach", base)
    git(origin, "merge", "--quiet", "--no-ff", "--no-edit", head)
    git(origin, "update-ref", "refs/pull/7/merge", "HEAD")
    git(origin, "checkout", "--quiet", "--detach", base)
    git(origin, "merge", "--quiet", "--squash", head)
    git(origin, "commit", "--quiet", "--message", "feature (#7)")
    git(origin, "update-ref", "refs/heads/queue", "HEAD")
    return base, head, git(origin, "rev-parse", "HEAD")


SMALL = """\
import unittest


class TestSmall(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(1 + 1, 2)

    def test_product(self):
        self.assertEqual(2 * 2, 4)
"""


@pytest.mark.gate
def test_a_merge_queue_takes_the_results_of_the_very_same_work_and_of_no_other(
    api: GitHubApi, job: Desk, tmp_path: Path, tree: Path
) -> None:
    (tree / "test" / "test_small.py").write_text(SMALL)
    source = f"pytorch: {{source: '{tree}', files: [test_small.py]}}\nreport: {{endpoint: none}}\nstage: 1\n"
    rows = ", ".join(f"{stage}: {{percent: 100, cards: 2}}" for stage in range(1, 6))
    base, head, group = queue_of(tmp_path / "origin", f"{source}stages: {{{rows}}}\n")
    toolkit = snapshot(tmp_path / "toolkit")
    path = os.pathsep.join([str(toolkit), str(STAND_IN)])
    environ = job.environ | {
        "PYTHONPATH": path,
        "SPYRE_CI_IMAGE": f"quay.io/o/i@sha256:{'1' * 64}",
        "GITHUB_WORKFLOW_REF": f"o/r/{WORKFLOW}@refs/heads/main",
    }
    theirs = checked_out(tmp_path / "origin", tmp_path / "theirs", "refs/pull/7/merge")
    pull_request = replace(job, folder=theirs, environ=environ)
    for words in (["pipeline", "plan"], ["run"], ["report"]):
        pull_request.call(*words, "--run-dir", "runs/ci")
    verdicts = pull_request.read("runs/ci/summary.json")["verdicts"]
    assert verdicts["passed"] == 2
    api.repositories["o/r"].pulls = {7: pull(7, sha=head)}
    hand_on(api, theirs / "runs" / "ci", workflow_run(50, sha=head))

    ours = checked_out(tmp_path / "origin", tmp_path / "ours", "refs/heads/queue")
    queue = replace(job, folder=ours, environ=environ)

    def reuse(run: str, commit: str) -> dict[str, Any]:
        ref = f"refs/heads/gh-readonly-queue/main/pr-7-{base}"
        payload = {"merge_group": {"head_sha": commit, "head_ref": ref, "base_sha": base}}
        queue.call(
            "pipeline", "reuse", run, "--out", "out.json", code=0, **after(queue, "merge_group", payload)
        )
        found: dict[str, Any] = queue.read("out.json")
        return found

    queue.call("pipeline", "plan", "--run-dir", "runs/ci")
    for name in ("red", "moved"):
        shutil.copytree(ours / "runs" / "ci", ours / "runs" / name)
    # A run that was not green gives nothing.
    api.repositories["o/r"].runs[50]["conclusion"] = "failure"
    assert reuse("runs/red", group)["reused"] is False
    assert not (ours / "runs" / "red" / "summary.json").exists()
    api.repositories["o/r"].runs[50]["conclusion"] = "success"
    told = reuse("runs/ci", group)
    assert (told["reused"], str(told["reused_run"])) == (True, "50"), told
    assert queue.read("runs/ci/summary.json")["verdicts"] == verdicts
    # The same plan of a commit that the pull request's run did not see.
    assert reuse("runs/moved", change(ours, "b.py", "b = 1\n"))["reused"] is False


# --- webhooks


def webhooks(desk: Desk, api: GitHubApi, *words: str, code: int = 0, **environ: str) -> Said:
    given = {
        "SPYRE_CI_GITHUB_TOKEN": TOKEN,
        "SPYRE_CI_TRUSTED_HOSTS": api.host,
        "SPYRE_CI_WEBHOOK_SECRET": SECRET,
    }
    said = desk.call("webhooks", *words, code=code, **(given | environ))
    assert SECRET not in said.out + said.err
    assert TOKEN not in said.out + said.err
    return said


@pytest.mark.gate
def test_webhooks_become_as_the_file_has_them_and_a_second_apply_changes_nothing(
    api: GitHubApi, desk: Desk
) -> None:
    hook = {"url": HOOK, "events": ["pull_request", "push"], "secret": "SPYRE_CI_WEBHOOK_SECRET"}
    row = {"repository": "o/r", "host": "here", "hooks": ["jenkins"]}
    file = {"hosts": {"here": {"api": api.url}}, "hooks": {"jenkins": hook}, "repositories": [row]}
    desk.write("jenkins/webhooks.yaml", yaml.safe_dump(file))
    hooks = api.repositories["o/r"].hooks

    def writes() -> list[str]:
        return [one.method for one in api.seen if one.method != "GET"]

    assert HOOK in webhooks(desk, api, "apply", "--check", code=1).out
    assert (writes(), hooks) == ([], {})
    webhooks(desk, api, "apply")
    (made,) = hooks.values()
    assert made["config"] == {"url": HOOK, "content_type": "json", "insecure_ssl": "0", "secret": SECRET}
    assert (made["events"], made["active"]) == (["pull_request", "push"], True)
    webhooks(desk, api, "apply")
    assert HOOK in webhooks(desk, api, "apply", "--check").out
    assert writes() == ["POST"]
    made["events"] = ["push"]
    hooks[99] = {**made, "id": 99, "config": {**made["config"], "url": "https://chat.example.com/x"}}
    webhooks(desk, api, "apply", "--check", code=1)
    webhooks(desk, api, "apply", "--prune")
    # Another's is left alone, and what was changed by hand is as the file has it.
    assert (made["events"], set(hooks), writes()) == (
        ["pull_request", "push"],
        {made["id"], 99},
        ["POST", "PATCH"],
    )
    assert made["config"]["secret"] == SECRET
