"""The comment of a pull request: gathered from its run and main's, taken for data, and kept up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ci.core.errors import SpyreCiError
from ci.core.github.client import Client, in_repository
from ci.core.github.errors import GitHubAwayError
from ci.pipeline.comment_text import Comment, Part, marked, render
from ci.pipeline.event import number_at, text_at
from ci.pipeline.github_runs import Actions, Artifact, Run
from ci.report.reader import REPORT_FILES, ReadRun, read_run
from ci.report.results import SUMMARY_FILE

# Names under which workflows hand on a run's folder.
ARTIFACTS = ("results", "results-*", "device.*")
# What main's runs are begun by; a pull request's branch may be called main, too.
_OF_MAIN = frozenset({"push", "schedule", "workflow_dispatch", "merge_group"})
MAX_LISTED = 100
MAX_LOOKED_AT = 10
MAX_PARTS = 20
MAX_COMMENTS = 5_000
Done = Literal["created", "updated", "unchanged", "newer"]


class Gathering:
    """What runs of a repository handed on, each listed and fetched once; all raise GitHubError.

    Args:
        actions: of GitHub.
        folder: for what is fetched.
        say: tells people what cannot be used.
    """

    def __init__(self, actions: Actions, folder: Path, say: Callable[[str], object]) -> None:
        self._actions, self._folder, self._say = actions, folder, say
        self._artifacts = cache(lambda run: actions.artifacts(run, ARTIFACTS))
        self._read = cache(self._fetch)

    def comment(self, run: Run, name: str, branch: str) -> Comment:
        """What is said of a run that has ended, beside the newest results that the branch has."""
        parts = list(self._parts(run))
        if any(part.run for part in parts):
            older = self._runs_of(branch, but=run)
            parts = [self._against(part, older, branch) for part in parts]
        return Comment(
            name=name,
            run_id=run.id,
            attempt=run.attempt,
            sha=run.sha,
            url=run.url,
            conclusion=run.conclusion,
            jobs=self._actions.bad_jobs(run),
            parts=parts,
        )

    def _parts(self, run: Run) -> Iterator[Part]:
        """What a run handed on, an entry a run folder; what cannot be used says why."""
        for artifact in self._artifacts(run)[:MAX_PARTS]:
            read, trouble = self._read(artifact)
            # A job that hands on other things under such a name, or came to no report, is no part.
            if read is not None or f"holds no {SUMMARY_FILE}" not in trouble:
                yield Part(title=artifact.group, run=read, trouble=trouble)

    def _fetch(self, artifact: Artifact) -> tuple[ReadRun | None, str]:
        """What an artifact tells, or why it cannot be used."""
        into = self._folder / f"artifact-{artifact.id}"
        try:
            self._actions.fetch(artifact, into, REPORT_FILES, beside=SUMMARY_FILE)
            read = read_run(into)
        except SpyreCiError as error:
            self._say(f"artifact {artifact.name}: {error.what}")
            return None, error.what
        if read.trouble:
            self._say(f"artifact {artifact.name}: its catalog is not used: {read.trouble}")
        return read, ""

    def _runs_of(self, branch: str, *, but: Run) -> list[Run]:
        """A branch's own runs, the newest first."""
        repository = self._actions.repository.lower()
        runs = [
            one
            for one in self._actions.runs(most=MAX_LISTED, branch=branch, status="completed")
            if one.event in _OF_MAIN and one.repository.lower() == repository and one.id != but.id
        ]
        # The same workflow first: what others run under the same name may be another share.
        return sorted(runs, key=lambda one: one.path != but.path)[:MAX_LOOKED_AT]

    def _against(self, part: Part, runs: Sequence[Run], branch: str) -> Part:
        """A part beside the newest results of the same name.

        Where there are none, such as on a branch whose tests run at night under names of their own, beside
        those of the same kind (`results-pinned` for `results`), device and PyTorch.
        """
        if part.run is None:
            return part
        kind = part.title.partition("-")[0]
        for exact in (True, False):
            for run in runs:
                for artifact in self._artifacts(run):
                    group = artifact.group
                    fits = group == part.title if exact else group.partition("-")[0] == kind
                    found = self._read(artifact)[0] if fits else None
                    if found is not None and (exact or _same_pytorch(found, part.run)):
                        return replace(part, base=found, base_said=f"{branch} at {run.sha[:12]}")
        return replace(part, base_said=f"no run of {branch} has results to compare with")


def _same_pytorch(one: ReadRun, other: ReadRun) -> bool:
    infos = (one.summary.identity, other.summary.identity)
    mine, theirs = ((info.device, info.pytorch_version, info.pytorch_sha) for info in infos)
    return mine == theirs


def keep(client: Client, repository: str, number: int, comment: Comment) -> Done:
    """Write the comment, or change the one that is there; `newer` where that tells of a later run.

    Raises:
        GitHubError: GitHub does not take it.
    """
    body = render(comment)
    there = find(client, repository, number, comment.name)
    if there is None:
        return _create(client, repository, number, comment, body)
    if (marked(text_at(there, "body"), comment.name) or (0, 0)) > (comment.run_id, comment.attempt):
        return "newer"
    # GitHub keeps no blanks at the end.
    if text_at(there, "body").strip() == body.strip():
        return "unchanged"
    path = in_repository(repository, "issues", "comments", number_at(there, "id"))
    client.send("PATCH", path, {"body": body})
    return "updated"


def find(client: Client, repository: str, number: int, name: str) -> dict[str, Any] | None:
    """The comment of a name: it begins with our mark, and we wrote it; the first where there are several.

    Raises:
        GitHubError: GitHub does not say.
    """
    login = client.login()
    path = in_repository(repository, "issues", number, "comments")
    for row in client.pages(path, most=MAX_COMMENTS):
        # Anybody can write our mark into a comment.
        if text_at(row, "user", "login") == login and marked(text_at(row, "body"), name) is not None:
            return row
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
    if not mine or first is None or number_at(first, "id") >= mine:
        return "created"
    # Another job wrote one at the same moment. All keep the first of them.
    client.send("DELETE", in_repository(repository, "issues", "comments", mine))
    return keep(client, repository, number, comment)
