"""Looking for a run whose results a merge queue's may take: GitHub's and Git's word first, its files last."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ci.core.archives import Wanted as WantedFile
from ci.core.errors import MissingInputError, SpyreCiError
from ci.core.github.client import Client, in_repository
from ci.pipeline.identity import FILE as IDENTITY_FILE
from ci.pipeline.identity import KIND as IDENTITY_KIND
from ci.pipeline.merged import bring, merged_tree, tree_of
from ci.pipeline.payload import text_at
from ci.pipeline.reuse import Group, Wanted, doubt, doubt_of_parts, own_doubt
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
