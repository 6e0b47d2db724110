"""A run whose results a merge queue's may take: only where nothing is doubtful.

GitHub's and Git's word is asked first, the run's own files last.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ci.core.archives import Wanted as WantedFile
from ci.core.errors import CommandError, MissingInputError, SpyreCiError
from ci.core.git import finish_git, git, shows_token
from ci.core.github.client import Client, in_repository
from ci.pipeline.event import text_at
from ci.pipeline.plan import FILE as IDENTITY_FILE
from ci.pipeline.plan import KIND as IDENTITY_KIND
from ci.pipeline.runs import Artifact, Run, artifacts_of, fetch, runs_of
from ci.report.reused import Reused
from test_selection.files import read_json

# Under which a workflow hands on the folders of its runs, where it has several.
ARTIFACTS = ("results", "results-*")
JOURNALS = "journal"
MAX_LOOKED_AT = 5
PLAN = "plan.json"
# What is taken of the artifact: what it was of, how it was dealt, and what became of each test.
FILES = (
    WantedFile(pattern=re.escape(IDENTITY_FILE), most_bytes=1 << 20),
    WantedFile(pattern=re.escape(PLAN), most_bytes=128 << 20),
    WantedFile(pattern=rf"{JOURNALS}/[0-9]{{1,6}}-[0-9]{{1,6}}\.jsonl", most_bytes=128 << 20),
)
# As GitHub names the branches of a merge queue, the pull request's number among the rest.
_QUEUE = re.compile(r"refs/heads/gh-readonly-queue/.+/pr-([0-9]{1,10})-[0-9a-f]{40}")
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_WORDS = {
    "tree": "tested another tree",
    "image": "ran in another image",
    "tests": "planned other tests",
    "torch": "had another PyTorch",
    "back_end": "had another back end",
    "settings": "was set otherwise",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Where is looked.

    Attributes:
        client: of GitHub's API.
        repository: owner/name.
        checkout: of the group's commit.
        run_dir: the folder of the run that was planned.
        scratch: for what is fetched.
        environ: the environment.
        say: tells people of each run that is not taken.
    """

    client: Client
    repository: str
    checkout: Path
    run_dir: Path
    scratch: Path
    environ: Mapping[str, str]
    say: Callable[[str], object]


def wanted_of(search: Search, group: Group, workflow: str) -> Wanted:
    """What a run has to have been of.

    Raises:
        SpyreCiError: the plan, the pull request or the commit is not there.
    """
    told = search.client.get(in_repository(search.repository, "pulls", group.number))
    content = read_json(search.run_dir / IDENTITY_FILE, IDENTITY_KIND)
    parts = content.get("parts")
    return Wanted(
        sha=text_at(told, "head", "sha"),
        workflow=workflow,
        tree=tree_of(search.checkout, group.head),
        parts=parts if isinstance(parts, dict) else {},
    )


def doubt_of_group(search: Search, group: Group, wanted: Wanted) -> str:
    """Why no results can be taken at all; empty where some may be.

    Raises:
        SpyreCiError: a commit cannot be had, or does not merge.
    """
    if tree_of(search.checkout, "HEAD") != wanted.tree:
        return "what is checked out is not the merge queue's commit"
    bring(search.checkout, group.number, wanted.sha, search.environ)
    return own_doubt(wanted, merged_tree(search.checkout, group.base, wanted.sha))


def candidates(search: Search, group: Group, wanted: Wanted) -> Iterator[tuple[Path, Reused]]:
    """The runs that fit, the newest first, each with the folder of its files; of the others is said why not.

    Raises:
        GitHubError: GitHub does not list them.
    """
    listed = runs_of(search.client, search.repository, head_sha=wanted.sha, event="pull_request")
    looked_at = 0
    for run in listed:
        reason = doubt(run, wanted)
        if not reason and looked_at >= MAX_LOOKED_AT:
            reason = f"is older than {MAX_LOOKED_AT} others that were looked at"
        if not reason:
            looked_at += 1
            folder = search.scratch / f"run-{run.id}"
            reason = _doubt_of_artifacts(search, run, wanted, folder)
            if not reason:
                yield folder, _reused(search, run, group, wanted)
                continue
        search.say(f"run {run.id} {reason}")
    if not listed:
        search.say(f"no run of {wanted.sha[:12]} is known")


def _doubt_of_artifacts(search: Search, run: Run, wanted: Wanted, folder: Path) -> str:
    """Why nothing that a run handed on can be taken; empty where one was fetched and fits."""
    try:
        found = artifacts_of(search.client, search.repository, run, ARTIFACTS)
    except SpyreCiError as error:
        return f"does not say what it handed on: {error.what}"
    reasons = []
    for artifact in found:
        shutil.rmtree(folder, ignore_errors=True)
        if not (reason := _doubt_of_files(search, artifact, wanted, folder)):
            return ""
        reasons.append(reason)
    return "; ".join(reasons) or "handed on no results, or they have expired"


def _doubt_of_files(search: Search, artifact: Artifact, wanted: Wanted, folder: Path) -> str:
    """Why what an artifact holds cannot be taken; empty where it was fetched and fits."""
    try:
        fetch(search.client, search.repository, artifact, folder, FILES, beside=IDENTITY_FILE)
        content = read_json(folder / IDENTITY_FILE, IDENTITY_KIND)
        if reason := doubt_of_parts(content.get("parts"), wanted):
            return reason
        if not any((folder / JOURNALS).glob("*.jsonl")):
            raise MissingInputError("there is no journal")
    except SpyreCiError as error:
        return f"handed on what cannot be used: {error.what}"
    return ""


def _reused(search: Search, run: Run, group: Group, wanted: Wanted) -> Reused:
    return Reused(
        repository=search.repository,
        run_id=run.id,
        attempt=run.attempt,
        sha=run.sha,
        pull_request=group.number,
        url=run.url,
        tree=wanted.tree,
    )


def tree_of(folder: Path, commit: str) -> str:
    """The tree of a commit.

    Raises:
        CommandError: the clone does not hold it.
    """
    return git(folder, "rev-parse", "--quiet", "--verify", "--end-of-options", f"{commit}^{{tree}}").strip()


def merged_tree(folder: Path, base: str, head: str) -> str:
    """The tree that merging a commit into another gives.

    Raises:
        CommandError: a commit is not there, or they do not merge by themselves.
    """
    return git(folder, "merge-tree", "--write-tree", base, head).split("\n", 1)[0].strip()


def bring(folder: Path, number: int, sha: str, environ: Mapping[str, str]) -> None:
    """Have the newest commit of a pull request in the clone, where it is not there yet.

    Args:
        folder: of the checkout, whose remote `origin` is the repository.
        number: of the pull request.
        sha: its newest commit.
        environ: `GITHUB_SERVER_URL` says whom the token of GITHUB_TOKEN is shown to.

    Raises:
        CommandError: it cannot be had.
    """
    if _is_there(folder, sha):
        return
    variables = {"GIT_TERMINAL_PROMPT": "0", **_header(environ)}
    words = ("fetch", "--quiet", "--no-tags", "origin", f"refs/pull/{number}/head")
    ended = finish_git(folder, *words, variables=variables)
    if ended.code or not _is_there(folder, sha):
        raise CommandError(
            f"the commit {sha[:12]} of pull request {number} cannot be had",
            remedy="check out with fetch-depth: 0, and let the job read contents",
        )


def _header(environ: Mapping[str, str]) -> dict[str, str]:
    """The token for git, for one server only; nothing where there is none."""
    token, server = environ.get("GITHUB_TOKEN", ""), environ.get("GITHUB_SERVER_URL", "")
    if not token or urlsplit(server).scheme != "https":
        return {}
    return shows_token(server.rstrip("/"), token, os.environ)


def _is_there(folder: Path, sha: str) -> bool:
    return not finish_git(folder, "cat-file", "-e", f"{sha}^{{commit}}").code


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What a merge queue is about to merge.

    Attributes:
        head: the commit that is tested.
        base: the one it goes on top of.
        number: the pull request that was added last.
    """

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
    if found is None or not _SHA.fullmatch(head) or not _SHA.fullmatch(base):
        return None
    return Group(head=head, base=base, number=int(found[1]))


def workflow_file(ref: str, repository: str) -> str:
    """The workflow's file out of GITHUB_WORKFLOW_REF, `owner/name/path@ref`; empty where it is elsewhere."""
    path = ref.partition("@")[0]
    mine = f"{repository}/".lower()
    return path[len(mine) :] if path.lower().startswith(mine) else ""


def own_doubt(wanted: Wanted, merged: str) -> str:
    """Why this run can take nobody's results; empty where it may look for some.

    Args:
        wanted: what the results have to be of.
        merged: the tree that merging the pull request's commit into the group's base gives.
    """
    if not wanted.workflow:
        return "the workflow's file is not one of this repository"
    unknown = sorted(name for name, value in wanted.parts.items() if not value)
    if unknown or not set(_WORDS) <= set(wanted.parts):
        missing = unknown or sorted(set(_WORDS) - set(wanted.parts))
        return f"the plan does not know its own {', '.join(missing)}"
    if wanted.parts["tree"] != wanted.tree:
        return "the plan is of another tree than the merge queue's commit"
    if merged != wanted.tree:
        return "merging the pull request's newest commit gives another tree: the group holds more, or less"
    return ""


def doubt(run: Run, wanted: Wanted) -> str:
    """Why a run's results are not looked at; empty where they are."""
    if run.event != "pull_request":
        return f"began by {run.event}, not by a pull request"
    if run.path != wanted.workflow:
        return f"is of another workflow, {run.path}"
    if run.sha != wanted.sha:
        return "is of another commit"
    if not run.ended:
        return "has not ended"
    if run.conclusion != "success":
        return f"ended as {run.conclusion or 'nobody knows what'}"
    return ""


def doubt_of_parts(parts: Any, wanted: Wanted) -> str:
    """Why a run was not the same work, by what its plan says of itself; empty where it was."""
    if not isinstance(parts, dict):
        return "does not say what it was of"
    different = [words for name, words in _WORDS.items() if parts.get(name) != wanted.parts.get(name)]
    if different:
        return ", ".join(different)
    # Parts that a later version adds are compared as well.
    return "" if dict(parts) == dict(wanted.parts) else "says other things of itself"
