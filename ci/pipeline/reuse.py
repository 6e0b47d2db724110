"""`spyre-ci pipeline reuse`: a merge queue's run takes a pull request's results, where nothing is doubtful.

GitHub's and Git's word is asked first, the run's own files last.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from ci.core.archives import Wanted as WantedFile
from ci.core.errors import CommandError, MissingInputError, SpyreCiError
from ci.core.git import find_object, finish_git, shows_token
from ci.core.github.client import connect, in_repository
from ci.main_job.report import report_step
from ci.main_job.reuse import doubt_of_results, take_results
from ci.pipeline.event import SHA, event_payload, text_at
from ci.pipeline.github_runs import Actions, Run
from ci.pipeline.outputs import Out, hand_on
from ci.pipeline.plan_identity import FILE as IDENTITY_FILE
from ci.pipeline.plan_identity import KIND as IDENTITY_KIND
from ci.report.reused import Reused
from ci.steps import options
from ci.steps.context import Context
from ci.steps.folder import JOURNALS, PLAN_FILE, RunFolder
from test_selection.files import read_json

# Under which a workflow hands on the folders of its runs, where it has several.
ARTIFACTS = ("results", "results-*")
# What is taken of the artifact: what it was of, how it was dealt, and what became of each test.
FILES = (
    WantedFile(pattern=re.escape(IDENTITY_FILE), most_bytes=1 << 20),
    WantedFile(pattern=r"plan\.json", most_bytes=128 << 20),
    WantedFile(pattern=rf"{JOURNALS}/[0-9]{{1,6}}-[0-9]{{1,6}}\.jsonl", most_bytes=128 << 20),
)
# Of runs that fit by what GitHub says of them.
MAX_LOOKED_AT = 5
# As GitHub names the branches of a merge queue, the pull request's number among the rest.
_QUEUE = re.compile(r"refs/heads/gh-readonly-queue/.+/pr-([0-9]{1,10})-[0-9a-f]{40}")
_WORDS = {
    "tree": "tested another tree",
    "image": "ran in another image",
    "tests": "planned other tests",
    "torch": "had another PyTorch",
    "back_end": "had another back end",
    "settings": "had other settings",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What a merge queue is about to merge: the tested commit, what it goes onto, the last pull request."""

    head: str
    base: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a run has to have been of.

    Attributes:
        sha: the pull request's newest commit.
        workflow: the workflow's file.
        tree: of the group's commit.
        parts: of the plan's identity, by name.
    """

    sha: str
    workflow: str
    tree: str
    parts: Mapping[str, str]


def group_of(payload: Mapping[str, Any]) -> Group | None:
    """The group of a merge_group event; None where it does not say all that is needed."""
    head, base = text_at(payload, "merge_group", "head_sha"), text_at(payload, "merge_group", "base_sha")
    found = _QUEUE.fullmatch(text_at(payload, "merge_group", "head_ref"))
    if found is None or not SHA.fullmatch(head) or not SHA.fullmatch(base):
        return None
    return Group(head=head, base=base, number=int(found[1]))


def workflow_file(ref: str, repository: str) -> str:
    """The workflow's file out of GITHUB_WORKFLOW_REF, `owner/name/path@ref`; empty where it is elsewhere."""
    path = ref.partition("@")[0]
    mine = f"{repository}/".lower()
    return path[len(mine) :] if path.lower().startswith(mine) else ""


def own_doubt(wanted: Wanted, checked_out: str, merged: str) -> str:
    """Why this run can take nobody's results; empty where it may look for some; pure.

    Args:
        wanted: what the results have to be of.
        checked_out: the tree that is checked out.
        merged: the tree that merging the pull request's commit into the group's base gives.
    """
    if checked_out != wanted.tree:
        return "the commit that is checked out is not the merge queue's"
    if not wanted.workflow:
        return "the workflow's file is not one of this repository"
    missing = sorted(
        {name for name, value in wanted.parts.items() if not value} | set(_WORDS) - set(wanted.parts)
    )
    if missing:
        return f"the plan does not record its {', '.join(missing)}"
    if wanted.parts["tree"] != wanted.tree:
        return "the plan is of another tree than the merge queue's commit"
    if merged != wanted.tree:
        return "merging the pull request's newest commit gives another tree: the group contains more, or less"
    return ""


def doubt(run: Run, wanted: Wanted) -> str:
    """Why a run's results are not looked at; empty where they are; pure."""
    if run.event != "pull_request":
        return f"was started by {run.event}, not by a pull request"
    if run.path != wanted.workflow:
        return f"is of another workflow, {run.path}"
    if run.sha != wanted.sha:
        return "is of another commit"
    if run.status != "completed":
        return "has not ended"
    if run.conclusion != "success":
        return f"ended as {run.conclusion or 'unknown'}"
    return ""


def doubt_of_parts(parts: Any, wanted: Wanted) -> str:
    """Why a run was not the same work, by what its plan says of itself; empty where it was; pure."""
    if not isinstance(parts, dict):
        return "does not record what it tested"
    different = [words for name, words in _WORDS.items() if parts.get(name) != wanted.parts.get(name)]
    # Parts that a later version adds are compared as well.
    return ", ".join(different) or ("" if parts == dict(wanted.parts) else "records other details of it")


def reuse(
    ctx: typer.Context,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder of the plan.")] = Path("runs/ci"),
    out: Out = None,
) -> None:
    """Reuse the results of the pull request's green run if the merge queue would test the same tree.

    In doubt the reason is printed, and everything runs.

    Example: spyre-ci pipeline reuse runs/ci
    """
    context = options.make_context(ctx, {})
    folder = RunFolder(path=run.resolve())
    if not folder.plan.is_file():
        remedy = "plan first: spyre-ci pipeline plan"
        raise MissingInputError(f"there is no {PLAN_FILE}", where=folder.path, remedy=remedy)
    group = group_of(event_payload(os.environ, "merge_group"))
    outputs: dict[str, Any] = {"reused": False, "reused_run": "", "reused_url": ""}
    try:
        taken = _take(context, folder, group)
    except SpyreCiError as error:
        taken = None
        context.say(f"nothing is reused: {error.what}")
    if taken is not None:
        context.say(taken.said())
        code = report_step(context, folder, allow_collect_errors=False).exit_code
        outputs = {"reused": code == 0, "reused_run": str(taken.run_id), "reused_url": taken.url}
    hand_on(outputs, out=out, kind="pipeline-reuse")


def _take(context: Context, folder: RunFolder, group: Group | None) -> Reused | None:
    """Take the results of the newest run that fits; None where none does, each refusal said.

    Raises:
        SpyreCiError: the plan, the pull request or a commit is not found, or GitHub does not say.
    """
    if group is None:
        context.say("nothing is reused: the event does not name a pull request's commits")
        return None
    actions = Actions(client=connect(os.environ), repository=os.environ.get("GITHUB_REPOSITORY", ""))
    wanted, reason = _wanted(context.settings.base, folder, actions, group)
    if reason:
        context.say(f"nothing is reused: {reason}")
        return None
    runs = actions.runs(head_sha=wanted.sha, event="pull_request")
    if not runs:
        context.say(f"GitHub knows no run of {wanted.sha[:12]}")
    looked_at = 0
    with tempfile.TemporaryDirectory(prefix="spyre-ci-") as scratch:
        for run in runs:
            other = Path(scratch, str(run.id))
            if not (reason := doubt(run, wanted)):
                looked_at += 1
                reason = f"is older than {MAX_LOOKED_AT} others that were checked"
                if looked_at <= MAX_LOOKED_AT:
                    reason = _doubt_of_artifacts(actions, run, wanted, other)
            if reason := reason or doubt_of_results(context, folder, other):
                context.say(f"run {run.id} {reason}")
                continue
            found = Reused(
                repository=actions.repository,
                run_id=run.id,
                attempt=run.attempt,
                sha=run.sha,
                pull_request=group.number,
                url=run.url,
                tree=wanted.tree,
            )
            take_results(folder, other, found)
            return found
    return None


def _wanted(checkout: Path, folder: RunFolder, actions: Actions, group: Group) -> tuple[Wanted, str]:
    """What a run has to have been of, and why this one can take nobody's results; empty where it may."""
    told = actions.client.get(in_repository(actions.repository, "pulls", group.number))
    parts = read_json(folder.path / IDENTITY_FILE, IDENTITY_KIND).get("parts")
    wanted = Wanted(
        sha=text_at(told, "head", "sha"),
        workflow=workflow_file(os.environ.get("GITHUB_WORKFLOW_REF", ""), actions.repository),
        tree=tree_of(checkout, group.head),
        parts=parts if isinstance(parts, dict) else {},
    )
    bring(checkout, group.number, wanted.sha, os.environ)
    merged = finish_git(checkout, "merge-tree", "--write-tree", group.base, wanted.sha)
    if merged.code:
        return (
            wanted,
            f"the pull request's newest commit does not merge into {group.base[:12]}, or that is not here",
        )
    return wanted, own_doubt(wanted, tree_of(checkout, "HEAD"), os.fsdecode(merged.stdout).strip())


def _doubt_of_artifacts(actions: Actions, run: Run, wanted: Wanted, into: Path) -> str:
    """Why nothing that a run handed on can be taken; empty where one was fetched and fits."""
    reasons = []
    try:
        for artifact in actions.artifacts(run, ARTIFACTS):
            shutil.rmtree(into, ignore_errors=True)
            actions.fetch(artifact, into, FILES, beside=IDENTITY_FILE)
            reason = doubt_of_parts(read_json(into / IDENTITY_FILE, IDENTITY_KIND).get("parts"), wanted)
            if not reason and any((into / JOURNALS).glob("*.jsonl")):
                return ""
            reasons.append(reason or "has artifacts that cannot be used: there is no journal")
    except SpyreCiError as error:
        reasons.append(f"has artifacts that cannot be used: {error.what}")
    return "; ".join(reasons) or "has no results in its artifacts, or they have expired"


def tree_of(folder: Path, commit: str) -> str:
    """The tree of a commit.

    Raises:
        CommandError: the clone does not hold it.
    """
    if found := find_object(folder, f"{commit}^{{tree}}"):
        return found
    raise CommandError(
        f"the checkout does not have commit {commit[:12]}", remedy="check out with fetch-depth: 0"
    )


def bring(folder: Path, number: int, sha: str, environ: Mapping[str, str]) -> None:
    """Have the newest commit of a pull request in the clone, whose remote `origin` is the repository.

    Raises:
        CommandError: it cannot be had.
    """

    def is_there() -> bool:
        return not finish_git(folder, "cat-file", "-e", f"{sha}^{{commit}}").code

    if is_there():
        return
    variables = {"GIT_TERMINAL_PROMPT": "0", **_token(environ)}
    words = ("fetch", "--quiet", "--no-tags", "origin", f"refs/pull/{number}/head")
    if finish_git(folder, *words, variables=variables).code or not is_there():
        raise CommandError(
            f"the commit {sha[:12]} of pull request {number} cannot be fetched",
            remedy="check out with fetch-depth: 0, and give the job `permissions: contents: read`",
        )


def _token(environ: Mapping[str, str]) -> dict[str, str]:
    """The token for git, for one server only; nothing where there is none, or over plain http."""
    token, server = environ.get("GITHUB_TOKEN", ""), environ.get("GITHUB_SERVER_URL", "")
    if not token or urlsplit(server).scheme != "https":
        return {}
    return shows_token(server.rstrip("/"), token, environ)
