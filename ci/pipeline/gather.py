"""The comment of a pull request: what it tells, gathered from a run and main's, and kept up to date."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ci.core.archives import Wanted
from ci.core.errors import SpyreCiError
from ci.core.github.client import Client, in_repository
from ci.core.github.errors import GitHubAwayError
from ci.pipeline.comment_text import Comment, Part, marked, render
from ci.pipeline.event import number_at, text_at
from ci.pipeline.runs import Artifact, Run, artifacts_of, bad_jobs, fetch, runs_of
from ci.pipeline.side import CATALOG_FILE, with_catalog
from ci.pipeline.told import MAX_PACKED, REPORT_FILES, Told, read_told
from ci.report.results import SUMMARY_FILE

# Names under which workflows hand on a run's folder.
ARTIFACTS = ("results", "results-*", "device.*")
# What main's runs are begun by; a pull request's branch may be called main, too.
_OF_MAIN = frozenset({"push", "schedule", "workflow_dispatch", "merge_group"})
# A comment says what a change adds and takes away where both runs handed their catalog on.
TAKEN = (*REPORT_FILES, Wanted(pattern=re.escape(CATALOG_FILE), most_bytes=MAX_PACKED))
MAX_LISTED = 100
MAX_LOOKED_AT = 10
MAX_PARTS = 20
MAX_COMMENTS = 5_000
Done = Literal["created", "updated", "unchanged", "newer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Where is asked, and where files go meanwhile.

    Attributes:
        client: of GitHub's API.
        repository: owner/name.
        patterns: names of artifacts that may hold a run's folder.
        folder: for what is fetched.
        say: tells people.
    """

    client: Client
    repository: str
    patterns: Sequence[str]
    folder: Path
    say: Callable[[str], object]


def comment_of(
    desk: Desk, run: Run, name: str, *, base_branch: str = "", base: Path | None = None
) -> Comment:
    """What is said of a run of a workflow.

    Args:
        desk: where is asked.
        run: that has ended.
        name: of the comment.
        base_branch: whose newest results are compared with; empty: nothing is.
        base: a run folder that is compared with instead.

    Raises:
        GitHubError: GitHub does not say.
    """
    parts = parts_of(desk, run)
    if base is not None:
        parts = [with_base(part, base) for part in parts]
    elif base_branch:
        parts = _against(desk, parts, run, base_branch)
    return Comment(
        name=name,
        run_id=run.id,
        attempt=run.attempt,
        sha=run.sha,
        url=run.url,
        conclusion=run.conclusion,
        jobs=bad_jobs(desk.client, desk.repository, run),
        parts=parts,
    )


def parts_of(desk: Desk, run: Run) -> list[Part]:
    """What a run handed on, an entry a run folder; what cannot be used says why.

    Raises:
        GitHubError: GitHub does not list it.
    """
    found = []
    for artifact in artifacts_of(desk.client, desk.repository, run, desk.patterns)[:MAX_PARTS]:
        told, trouble = _told(desk, artifact)
        if told is None and f"holds no {SUMMARY_FILE}" in trouble:
            # A job that hands on other things under such a name, or came to no report.
            desk.say(f"artifact {artifact.name}: no run is in it")
            continue
        found.append(Part(title=artifact.group, told=told, trouble=trouble))
    return found


def with_base(part: Part, base: Path) -> Part:
    """A part beside a run folder on this machine.

    Raises:
        SpyreCiError: that folder holds no results.
    """
    told = with_catalog(read_told(base), base)
    return replace(part, base=told, base_said=f"run {told.run}")


def _told(desk: Desk, artifact: Artifact) -> tuple[Told | None, str]:
    """What an artifact tells, or why it cannot be used: it is a stranger's, and may be anything."""
    into = desk.folder / f"artifact-{artifact.id}"
    try:
        fetch(desk.client, desk.repository, artifact, into, TAKEN, beside=SUMMARY_FILE)
        told = read_told(into)
    except SpyreCiError as error:
        desk.say(f"artifact {artifact.name}: {error.what}")
        return None, error.what
    try:
        return with_catalog(told, into), ""
    except SpyreCiError as error:
        desk.say(f"artifact {artifact.name}: its catalog is not used: {error.what}")
        return told, ""


def _against(desk: Desk, parts: Sequence[Part], run: Run, branch: str) -> list[Part]:
    """The parts, each beside the newest results of its kind that the branch has."""
    if not any(part.told for part in parts):
        return list(parts)
    runs = [
        one
        for one in runs_of(desk.client, desk.repository, most=MAX_LISTED, branch=branch, status="completed")
        if one.event in _OF_MAIN and one.repository.lower() == desk.repository.lower() and one.id != run.id
    ]
    # The same workflow first: what others run under the same name may be another share.
    runs.sort(key=lambda one: one.path != run.path)
    main = _Main(desk, runs[:MAX_LOOKED_AT])
    compared = []
    for part in parts:
        found = None if part.told is None else main.like(part.title, part.told)
        if found is None:
            compared.append(replace(part, base_said=f"no run of {branch} has such results"))
        else:
            sha, told = found
            compared.append(replace(part, base=told, base_said=f"{branch} at {sha[:12]}"))
    return compared


class _Main:
    """What the runs of a branch handed on; each is listed and fetched once, and only where it is needed."""

    def __init__(self, desk: Desk, runs: Sequence[Run]) -> None:
        self._desk = desk
        self._runs = runs
        self._listed: dict[int, list[Artifact]] = {}
        self._told: dict[int, Told | None] = {}

    def like(self, name: str, told: Told) -> tuple[str, Told] | None:
        """The commit and results that some are compared with: those of the same name.

        Where there are none, such as on a branch whose tests run at night under names of their own, those of
        the same kind (`results-pinned` for `results`), device and PyTorch.
        """
        kind = name.partition("-")[0]
        for exact in (True, False):
            for run in self._runs:
                for artifact in self._of(run):
                    fits = artifact.group == name if exact else artifact.group.partition("-")[0] == kind
                    found = self._fetched(artifact) if fits else None
                    if found is not None and (exact or _same_pytorch(found, told)):
                        return run.sha, found
        return None

    def _of(self, run: Run) -> list[Artifact]:
        if run.id not in self._listed:
            desk = self._desk
            self._listed[run.id] = artifacts_of(desk.client, desk.repository, run, desk.patterns)
        return self._listed[run.id]

    def _fetched(self, artifact: Artifact) -> Told | None:
        if artifact.id not in self._told:
            self._told[artifact.id] = _told(self._desk, artifact)[0]
        return self._told[artifact.id]


def _same_pytorch(one: Told, other: Told) -> bool:
    return (one.who.device, one.who.pytorch_version, one.who.pytorch_sha) == (
        other.who.device,
        other.who.pytorch_version,
        other.who.pytorch_sha,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class There:
    """A comment of ours that is there."""

    id: int
    run: tuple[int, int]
    body: str


def keep(client: Client, repository: str, number: int, comment: Comment) -> Done:
    """Write the comment, or change the one that is there; `newer` where that tells of a later run.

    Raises:
        GitHubError: GitHub does not take it.
    """
    body = render(comment)
    there = find(client, repository, number, comment.name)
    if there is None:
        return _create(client, repository, number, comment, body)
    if there.run > (comment.run_id, comment.attempt):
        return "newer"
    # GitHub keeps no blanks at the end.
    if there.body.strip() == body.strip():
        return "unchanged"
    client.send("PATCH", in_repository(repository, "issues", "comments", there.id), {"body": body})
    return "updated"


def find(client: Client, repository: str, number: int, name: str) -> There | None:
    """The comment of a name: it begins with our mark, and we wrote it; the first where there are several.

    Raises:
        GitHubError: GitHub does not say.
    """
    login = client.login()
    path = in_repository(repository, "issues", number, "comments")
    for row in client.pages(path, most=MAX_COMMENTS):
        body = text_at(row, "body")
        # Anybody can write our mark into a comment.
        if text_at(row, "user", "login") == login and (run := marked(body, name)) is not None:
            return There(id=number_at(row, "id"), run=run, body=body)
    return None


def _create(client: Client, repository: str, number: int, comment: Comment, body: str) -> Done:
    path = in_repository(repository, "issues", number, "comments")
    try:
        mine = number_at(client.send("POST", path, {"body": body}), "id")
    except GitHubAwayError:
        # It may have been written, and only the answer lost: a second one would stay for ever.
        if find(client, repository, number, comment.name) is None:
            raise
        return "created"
    first = find(client, repository, number, comment.name)
    if not mine or first is None or first.id >= mine:
        return "created"
    # Another job wrote one at the same moment. All keep the first of them.
    client.send("DELETE", in_repository(repository, "issues", "comments", mine))
    return keep(client, repository, number, comment)
