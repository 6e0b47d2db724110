"""Runs of workflows, their jobs and artifacts, and the pull requests they are of, asked of GitHub's API."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ci.core.archives import Wanted, unpack
from ci.core.github.client import Client, in_repository
from ci.core.github.errors import GitHubRefusedError
from ci.pipeline.comment_text import Job
from ci.pipeline.event import SHA, at, number_at, text_at

MAX_RUNS = 300
# A plan has at most 4,096 legs, which each hand on one artifact an attempt, and are one job.
MAX_LISTED = 20_000
MAX_ARTIFACT_BYTES = 256 << 20
# Jobs that did what they should, or were not to do anything.
FINE = frozenset({"success", "skipped", "neutral"})
# `results-2` is the results of a call of that name, and no attempt.
_ATTEMPT = re.compile(r"\.(\d{1,6})$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of a workflow, as GitHub tells it.

    Attributes:
        id: whole, and grows.
        attempt: from 1.
        name: the workflow's.
        path: the workflow's file, from the repository's top.
        event: what began it.
        status: `completed` once it has ended.
        conclusion: how; empty before.
        sha: of a pull request its head, not what it was merged into.
        branch: the head's.
        repository: owner/name the head is of.
        url: its page.
    """

    id: int
    attempt: int
    name: str
    path: str
    event: str
    status: str
    conclusion: str
    sha: str
    branch: str
    repository: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """What a run handed on."""

    id: int
    name: str

    @property
    def group(self) -> str:
        """The name without the attempt behind it."""
        return _ATTEMPT.sub("", self.name)


def run_of(row: Any) -> Run | None:
    """A run out of an answer or an event; None where something is missing that is needed; pure."""
    number, sha = number_at(row, "id"), text_at(row, "head_sha")
    if not number or not SHA.fullmatch(sha):
        return None
    return Run(
        id=number,
        attempt=number_at(row, "run_attempt") or 1,
        name=text_at(row, "name"),
        # Some answers name the branch of the file behind it.
        path=text_at(row, "path").partition("@")[0],
        event=text_at(row, "event"),
        status=text_at(row, "status"),
        conclusion=text_at(row, "conclusion"),
        sha=sha,
        branch=text_at(row, "head_branch"),
        repository=text_at(row, "head_repository", "full_name"),
        url=text_at(row, "html_url"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """GitHub Actions of one repository, `owner/name`; all methods raise GitHubError."""

    client: Client
    repository: str

    def runs(self, *, most: int = MAX_RUNS, **query: str) -> list[Run]:
        """Runs that fit a query such as `head_sha`, `event`, `branch`; the newest first."""
        path = in_repository(self.repository, "actions", "runs")
        rows = self.client.pages(path, query, key="workflow_runs", most=most)
        runs = [run for row in rows if (run := run_of(row)) is not None]
        return sorted(runs, key=lambda run: -run.id)

    def bad_jobs(self, run: Run) -> list[Job]:
        """The jobs of a run's newest attempt that did not succeed."""
        return [
            Job(name=text_at(row, "name"), conclusion=conclusion, url=text_at(row, "html_url"))
            for row in self._all_of(run, "jobs", filter="latest")
            if (conclusion := text_at(row, "conclusion")) and conclusion not in FINE
        ]

    def artifacts(self, run: Run, patterns: Sequence[str]) -> list[Artifact]:
        """What a run handed on under names that fit, the newest of each group, by name."""
        newest: dict[str, Artifact] = {}
        for row in self._all_of(run, "artifacts"):
            name, number = text_at(row, "name"), number_at(row, "id")
            if number and at(row, "expired") is not True and any(fnmatchcase(name, one) for one in patterns):
                found = Artifact(id=number, name=name)
                newest[found.group] = max(newest.get(found.group, found), found, key=lambda one: one.id)
        return [newest[group] for group in sorted(newest)]

    def _all_of(self, run: Run, key: str, **query: str) -> list[dict[str, Any]]:
        """The whole of a list: of a part nobody could tell what is not in it."""
        path = in_repository(self.repository, "actions", "runs", run.id, key)
        rows = self.client.pages(path, query, key=key, most=MAX_LISTED + 1)
        if len(rows) > MAX_LISTED:
            raise GitHubRefusedError(
                f"there are more than {MAX_LISTED:,} {key} of the run",
                remedy="plan fewer CI jobs: pipeline.shard_s",
            )
        return rows

    def fetch(self, artifact: Artifact, into: Path, wanted: Sequence[Wanted], *, beside: str) -> None:
        """Take files out of an artifact.

        Raises:
            SpyreCiError: it is bigger than agreed, no zip, or holds what no artifact of ours does.
        """
        archive = into.with_name(f"{into.name}.zip")
        path = in_repository(self.repository, "actions", "artifacts", artifact.id, "zip")
        try:
            self.client.download(path, archive, most_bytes=MAX_ARTIFACT_BYTES)
            unpack(archive, into, wanted, beside=beside)
        finally:
            archive.unlink(missing_ok=True)

    def pulls_of(self, run: Run) -> list[tuple[int, str]]:
        """The open pull requests whose newest commit a run is of, each with the branch it is to go into.

        Asked by the head's repository, branch and commit, which GitHub tells: what the run itself says of it,
        and what it hands on, may be made up.
        """
        owner = run.repository.partition("/")[0]
        if not owner or not run.branch:
            return []
        path = in_repository(self.repository, "pulls")
        rows = self.client.pages(path, {"state": "open", "head": f"{owner}:{run.branch}"}, most=100)
        return [
            (number_at(row, "number"), text_at(row, "base", "ref"))
            for row in rows
            if text_at(row, "head", "sha") == run.sha
            and text_at(row, "head", "repo", "full_name").lower() == run.repository.lower()
            and number_at(row, "number")
        ]
