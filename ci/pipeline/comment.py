"""The comment of a pull request: gathered from its run and main's, taken for data, and kept up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathering:
    """Where is asked, a folder for what is fetched, and who is told; all raise GitHubError."""

    actions: Actions
    folder: Path
    say: Callable[[str], object]

    def comment(self, run: Run, name: str, branch: str) -> Comment:
        """What is said of a run that has ended, beside the newest results that the branch has."""
        return Comment(
            name=name,
            run_id=run.id,
            attempt=run.attempt,
            sha=run.sha,
            url=run.url,
            conclusion=run.conclusion,
            jobs=self.actions.bad_jobs(run),
            parts=self._against(list(self._parts(run)), run, branch),
        )

    def _parts(self, run: Run) -> Iterator[Part]:
        """What a run handed on, an entry a run folder; what cannot be used says why."""
        for artifact in self.actions.artifacts(run, ARTIFACTS)[:MAX_PARTS]:
            read, trouble = self.read(artifact)
            # A job that hands on other things under such a name, or came to no report, is no part.
            if read is not None or f"holds no {SUMMARY_FILE}" not in trouble:
                yield Part(title=artifact.group, run=read, trouble=trouble)

    def read(self, artifact: Artifact) -> tuple[ReadRun | None, str]:
        """What an artifact tells, or why it cannot be used."""
        into = self.folder / f"artifact-{artifact.id}"
        try:
            self.actions.fetch(artifact, into, REPORT_FILES, beside=SUMMARY_FILE)
            read = read_run(into)
        except SpyreCiError as error:
            self.say(f"artifact {artifact.name}: {error.what}")
            return None, error.what
        if read.trouble:
            self.say(f"artifact {artifact.name}: its catalog is not used: {read.trouble}")
        return read, ""

    def _against(self, parts: Sequence[Part], run: Run, branch: str) -> list[Part]:
        """The parts, each beside the newest results of its kind that the branch has."""
        if not any(part.run for part in parts):
            return list(parts)
        runs = [
            one
            for one in self.actions.runs(most=MAX_LISTED, branch=branch, status="completed")
            if one.event in _OF_MAIN
            and one.repository.lower() == self.actions.repository.lower()
            and one.id != run.id
        ]
        # The same workflow first: what others run under the same name may be another share.
        runs.sort(key=lambda one: one.path != run.path)
        main = _Main(self, runs[:MAX_LOOKED_AT])
        compared = []
        for part in parts:
            found = None if part.run is None else main.like(part.title, part.run)
            said = f"{branch} at {found[0][:12]}" if found else f"no run of {branch} has such results"
            compared.append(replace(part, base=found[1] if found else None, base_said=said))
        return compared


class _Main:
    """What the runs of a branch handed on; each is listed and fetched once, and only where it is needed."""

    def __init__(self, gathering: Gathering, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._listed = cache(lambda run: gathering.actions.artifacts(run, ARTIFACTS))
        self._read = cache(lambda artifact: gathering.read(artifact)[0])

    def like(self, name: str, run: ReadRun) -> tuple[str, ReadRun] | None:
        """The commit and results that some are compared with: those of the same name.

        Where there are none, such as on a branch whose tests run at night under names of their own, those of
        the same kind (`results-pinned` for `results`), device and PyTorch.
        """
        kind = name.partition("-")[0]
        for exact in (True, False):
            for main in self._runs:
                for artifact in self._listed(main):
                    fits = artifact.group == name if exact else artifact.group.partition("-")[0] == kind
                    found = self._read(artifact) if fits else None
                    if found is not None and (exact or _same_pytorch(found, run)):
                        return main.sha, found
        return None


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
