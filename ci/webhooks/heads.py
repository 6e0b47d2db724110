"""Which commits are to be tested: heads of pull requests and branches, and what is known of them; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, ValidationError

from ci.config.section import Section
from ci.core.github.errors import GitHubAwayError
from ci.webhooks.model import Branches, PullRequests

PULL_REQUESTS, BRANCHES = "pull_requests", "branches"
# Who GitHub says has a hand in a repository; see `author_association` of its REST API.
_MEMBERS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
_TRUSTED = {
    "repository": frozenset[str](), "members": _MEMBERS, "contributors": _MEMBERS | {"CONTRIBUTOR"},
}  # fmt: skip
# How long a commit is remembered after nothing leads to it any more: a branch may be pushed back to it.
KEEP_S = 90 * 24 * 3600.0

Sha = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]
# A name git takes for a branch has no blanks and no control characters.
BranchName = Annotated[str, StringConstraints(pattern=r"^[^\s\x00-\x1f\x7f~^:?*\[\\]{1,255}$")]


class Head(Section):
    """A commit that a pull request or a branch leads to.

    Attributes:
        sha: the commit.
        branch: its branch; of a pull request the one it wants to go to.
        number: of the pull request; None of a branch.
        own: whether it is of a branch of this very repository, and not of a fork.
        association: what its author is to the repository, as GitHub says it.
    """

    sha: Sha
    branch: BranchName
    number: Annotated[int, Field(ge=1)] | None = None
    own: bool = True
    association: str = ""

    @property
    def name(self) -> str:
        """For people."""
        return f"branch {self.branch}" if self.number is None else f"pull request {self.number}"


class Note(Section):
    """What is known of a commit.

    Attributes:
        how: `seen` before anything was to be started; `starting`: Jenkins was asked, and its answer is not
            noted; `started`; `refused`: it is a stranger's, and that was said.
        gone_at: when nothing led to it any more, in seconds since the epoch; None as long as something does.
    """

    how: Literal["seen", "starting", "started", "refused"]
    gone_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of the heads of a kind.

    Attributes:
        start: these are started, in this order.
        doubtful: those of them that Jenkins may have taken before.
        seen: commits that could be started and were there before anything was to be.
        refused: strangers' heads that were not told yet.
    """

    start: tuple[Head, ...] = ()
    doubtful: frozenset[str] = frozenset()
    seen: frozenset[str] = frozenset()
    refused: tuple[Head, ...] = ()


def decide(
    rule: PullRequests | Branches,
    heads: Iterable[Head],
    known: Mapping[str, Note] | None,
    *,
    everything: bool = False,
) -> Decision:
    """Which heads are started: those that fit, each commit once.

    Args:
        rule: what is polled.
        heads: as GitHub has them now.
        known: of earlier passes, by commit; None where this is the first.
        everything: whether a first pass starts what is there.
    """
    heads = sorted(heads, key=lambda one: (one.number or 0, one.branch))
    first, known = known is None and not everything, known or {}
    done = {sha for sha, note in known.items() if note.how in {"seen", "started"}}
    start: dict[str, Head] = {}
    refused: dict[str, Head] = {}
    for one in heads:
        if one.sha in done or not wanted(rule, one):
            continue
        if trusted(rule, one):
            start.setdefault(one.sha, one)
        elif one.sha not in known:
            refused.setdefault(one.sha, one)
    return Decision(
        # What cannot be started now is not noted either: it may be another day.
        seen=frozenset(start) if first else frozenset(),
        start=() if first else tuple(start.values()),
        doubtful=frozenset(sha for sha in start if sha in known and known[sha].how == "starting"),
        refused=tuple(one for sha, one in refused.items() if sha not in start),
    )


def wanted(rule: PullRequests | Branches, head: Head) -> bool:
    """Whether a head's branch is one that is asked for."""
    patterns = rule.bases if isinstance(rule, PullRequests) else rule.names
    return any(fnmatchcase(head.branch, pattern) for pattern in patterns)


def trusted(rule: PullRequests | Branches, head: Head) -> bool:
    """Whether a head may be run on our machines; who may push a branch may."""
    if isinstance(rule, Branches) or head.own or rule.trust == "everyone":
        return True
    return head.association in _TRUSTED[rule.trust]


def kept(notes: Mapping[str, Note], heads: Collection[str], *, now: float) -> dict[str, Note]:
    """The notes without those that nothing has led to for long; of the others, since when nothing does.

    Args:
        notes: by commit.
        heads: commits that something leads to.
        now: seconds since the epoch.
    """
    found: dict[str, Note] = {}
    for sha, note in notes.items():
        gone_at = None if sha in heads else now if note.gone_at is None else note.gone_at
        if gone_at is None or now - gone_at < KEEP_S:
            found[sha] = Note(how=note.how, gone_at=gone_at)
    return found


def prefixes(names: Iterable[str]) -> tuple[str, ...]:
    """What the names of branches begin with that fit patterns; what another begins with is left out."""
    begins = {name[: min([len(name), *(name.find(sign) for sign in "*?" if sign in name)])] for name in names}
    return tuple(
        sorted(one for one in begins if not any(one != other and one.startswith(other) for other in begins))
    )


def pull_request_of(row: Mapping[str, Any], repository: str) -> Head:
    """The head of a pull request as the API has it.

    Raises:
        GitHubAwayError: it is none.
    """
    head, base = _table(row.get("head")), _table(row.get("base"))
    # The fork of a pull request may have been deleted.
    owner = str(_table(head.get("repo")).get("full_name", ""))
    return _head(
        sha=head.get("sha"),
        branch=base.get("ref"),
        number=row.get("number"),
        own=owner.lower() == repository.lower(),
        association=str(row.get("author_association", "")),
    )


def branch_of(row: Mapping[str, Any]) -> Head:
    """The head of a branch as the API has its reference.

    Raises:
        GitHubAwayError: it is none.
    """
    return _head(
        sha=_table(row.get("object")).get("sha"), branch=str(row.get("ref", ""))[len("refs/heads/") :]
    )


def _head(**values: Any) -> Head:
    try:
        return Head.model_validate(values)
    except ValidationError as error:
        keys = ", ".join(str(one["loc"][0]) for one in error.errors() if one["loc"])
        raise GitHubAwayError(
            f"GitHub's list of heads holds something else (not understood: {keys})",
            remedy="check the address of the API: `hosts.….api`",
        ) from None


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
