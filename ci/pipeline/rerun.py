"""Running again what failed, because somebody asks for it in a comment: who may, and which runs; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ci.pipeline.comment_text import RERUN_COMMAND
from ci.pipeline.payload import at, number_at, text_at
from ci.pipeline.runs import Run

COMMANDS = frozenset({RERUN_COMMAND, f"{RERUN_COMMAND} failed"})
# Who has had a change merged before, or belongs to the project: GitHub's own words.
ASSOCIATIONS = frozenset({"OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR"})
FAILED = frozenset({"failure", "cancelled", "timed_out", "startup_failure"})
# What began the runs that a pull request's people wait for. A push's are not theirs: a commit of the
# repository may be the head of anybody's pull request, and its runs have rights that no pull request's have.
_EVENTS = frozenset({"pull_request", "pull_request_review"})
NOT_YOURS = (
    "Thank you for looking after this. Running jobs again is for those who have contributed here before, and "
    "for the author of the pull request: please ask one of them."
)
NOT_OPEN = "This pull request is closed, so nothing is run again. Reopen it first."
NOTHING = "Nothing of the newest commit has failed, so there is nothing to run again."
STILL = "The newest commit's jobs are still running. Please ask again when they have ended."


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A comment that asks for something.

    Attributes:
        comment: its number.
        pull_request: that it stands on.
        login: who wrote it.
        association: what GitHub says they are to the repository.
        author: who opened the pull request.
        is_open: whether it is.
    """

    comment: int
    pull_request: int
    login: str
    association: str
    author: str
    is_open: bool

    @property
    def may(self) -> bool:
        """Whether whoever asks may."""
        return self.association in ASSOCIATIONS or (bool(self.login) and self.login == self.author)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of a request.

    Attributes:
        runs: that are run again.
        reply: what is answered where that is none; ours alone, nothing of the comment is in it.
    """

    runs: Sequence[Run] = ()
    reply: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The newest commit of a pull request, the branch it is on, and whose that is (owner/name)."""

    sha: str
    branch: str
    repository: str


def asked_by(payload: Mapping[str, Any]) -> Asked | None:
    """The request of an issue_comment event; None where nobody asks for anything.

    The command is the first line, alone: what quotes it, or speaks of it, asks for nothing.
    """
    if text_at(payload, "action") != "created" or not isinstance(at(payload, "issue", "pull_request"), dict):
        return None
    first = next((line for line in text_at(payload, "comment", "body").splitlines() if line.strip()), "")
    person = text_at(payload, "comment", "user", "type") == "User"
    if " ".join(first.split()) not in COMMANDS or first[:1].isspace() or not person:
        return None
    return Asked(
        comment=number_at(payload, "comment", "id"),
        pull_request=number_at(payload, "issue", "number"),
        login=text_at(payload, "comment", "user", "login"),
        association=text_at(payload, "comment", "author_association"),
        author=text_at(payload, "issue", "user", "login"),
        is_open=text_at(payload, "issue", "state") == "open",
    )


def of_head(runs: Iterable[Run], head: Head) -> list[Run]:
    """Those of the runs that are of a pull request's head, and not of another branch with the same commit."""
    wanted = (head.sha, head.branch, head.repository.lower())
    return [run for run in runs if (run.sha, run.branch, run.repository.lower()) == wanted]


def decide(asked: Asked, runs: Iterable[Run]) -> Decision:
    """Which runs are run again, or why none.

    Args:
        asked: the request.
        runs: every run of the pull request's newest commit.
    """
    if not asked.may:
        return Decision(reply=NOT_YOURS)
    if not asked.is_open:
        return Decision(reply=NOT_OPEN)
    newest: dict[str, Run] = {}
    for run in runs:
        # A label that asks for nothing begins a run that is skipped, and takes back no failure.
        counts = run.event in _EVENTS and run.conclusion != "skipped"
        if counts and (run.path not in newest or newest[run.path].id < run.id):
            newest[run.path] = run
    failed = [run for run in newest.values() if run.ended and run.conclusion in FAILED]
    if failed:
        return Decision(runs=sorted(failed, key=lambda run: run.id))
    return Decision(reply=NOTHING if all(run.ended for run in newest.values()) else STILL)
