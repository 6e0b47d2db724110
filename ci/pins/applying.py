"""What comes of applying a decision: a branch, its way to GitHub, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from ci.core.errors import BadFileError, UsageError
from ci.core.extras import wanted
from ci.pins.branch import Repository, is_merged, tip_of
from ci.pins.change import BranchTakenError, Change, Made, make_change, pinned_version, upgrade_at
from ci.pins.protocol import Decision
from ci.pins.push import Remote
from ci.pins.releases import same_version
from ci.pins.status_cli import decision_lines
from test_selection.files import schema_name

if TYPE_CHECKING:
    from ci.core.github.client import Client
    from ci.pins.pull import Pull

REPOSITORY_VARIABLE = "GITHUB_REPOSITORY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """GitHub's repository that a change goes to."""

    name: str
    client: Client
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What came of applying a decision.

    Attributes:
        track: its name.
        decision: what was decided.
        change: that follows from it; None where no upgrade is due.
        note: what people should look at; empty where there is nothing.
        made: the branch; None where none was to be made.
        pull: the pull request; None where none was to be opened.
    """

    track: str
    decision: Decision
    change: Change | None = None
    note: str = ""
    made: Made | None = None
    pull: Pull | None = None

    def lines(self, remote: str) -> Iterator[str]:
        """For people; pure."""
        yield from decision_lines(self.decision)
        if self.note:
            yield f"  NOTE: {self.note}"
        if self.change is None:
            return
        branch = self.change.branch
        if self.made is None and self.pull is None:
            yield f"  would make branch {branch}: {self.change.title}"
            return
        if self.made is not None:
            how = f"is made at {self.made.commit[:12]}" if self.made.new else "is there already"
            yield f"  branch {branch} {how}"
        if self.pull is None:
            yield f"  to open it: git push {remote} {branch}, and a pull request from it,"
            yield f"  with what `spyre-ci pins checklist {self.track}` prints as its text"
            return
        state = {
            "opened": "is opened",
            "open": "is open already",
            "closed": "was closed, and is not opened again",
            "merged": "is merged: pull it",
        }.get(self.pull.state, f"is {self.pull.state}")
        yield f"  pull request {self.pull.number} {state}: {self.pull.url}"

    def content(self) -> dict[str, Any]:
        """For programs; pure."""
        return {
            "schema": schema_name("pin-change"),
            "track": self.track,
            "decision": self.decision.model_dump(mode="json"),
            "note": self.note,
            "branch": self.change and self.change.branch,
            "made": self.made and asdict(self.made),
            "pull": self.pull and asdict(self.pull),
        }


def carry_out(
    here: Repository, done: Done, change: Change, hub: Hub | None, *, remote: str, base: str, now: float
) -> Done:
    """Make a change's branch and, where there is a repository of GitHub's, send it and open its pull request.

    Args:
        here: the repository it is made in.
        done: so far.
        change: to be made.
        hub: GitHub's repository; None: nothing is sent.
        remote: what Git knows it by.
        base: the branch it is to go into; empty: the one that is checked out, or the repository's own.
        now: seconds since the epoch.

    Raises:
        SpyreCiError: see `make_change`, `ci.pins.push` and `ci.core.github.errors`.
    """
    if hub is None:
        while is_merged(here, change.branch):
            change = _next(change)
        return replace(done, change=change, made=make_change(here, change, now=now))
    from ci.pins.pull import find_pull, open_pull  # noqa: PLC0415  # with PyGithub, an extra

    far = Remote(here, remote, api=hub.client.api, token=hub.token)
    while True:
        # Where a run before this one made it, in a checkout that is gone.
        far.fetch(change.branch)
        pull = find_pull(hub.client, hub.name, change.branch)
        if pull is not None and pull.state != "open":
            if _settles(here, far, pull, change):
                return replace(done, change=change, pull=pull)
        elif not is_merged(here, change.branch):
            break
        change = _next(change)
    made = make_change(here, change, now=now)
    far.push(change.branch)
    pull = pull or open_pull(hub.client, hub.name, change, base=base or here.on)
    return replace(done, change=change, made=made, pull=pull)


def _next(change: Change) -> Change:
    """The same under the next name: this one was merged or declined, and it is due all the same."""
    return replace(change, times=change.times + 1)


def _settles(here: Repository, far: Remote, pull: Pull, change: Change) -> bool:
    """Whether a pull request that is closed or merged says all there is to say of a change.

    Raises:
        BranchTakenError: what it held cannot be read.
        PushError: the remote was not reached, or does not have it.
    """
    if pull.state == "merged":
        # What has all of that branch, and not the upgrade, has had it taken back, or is asked for another.
        return not far.has(pull.base, here.head)
    tip = tip_of(here, change.branch) or far.commit_of(pull.number)
    try:
        declined = upgrade_at(here, change, tip)
    except (BadFileError, UsageError) as error:
        raise BranchTakenError(
            f"pull request {pull.number} was closed, and cannot be compared: {error.what}",
            where=pull.url,
            remedy="look at it; where it may go, open it again",
        ) from error
    if declined is None:
        return False
    wanted = change.event
    same = (declined.version, declined.sha) == (wanted.version, wanted.sha)
    return same and {*wanted.answers} <= {*declined.answers}


def hub_of(repository: str, environ: Mapping[str, str]) -> Hub | None:
    """GitHub's repository; None where it, or a token for it, is nowhere.

    Args:
        repository: owner/name as a flag has it, which wants a token; empty: the environment's.
        environ: the environment.

    Raises:
        SettingsError: there is no token, or the API's address is none.
        CommandError: the library for GitHub is not installed.
    """
    name = repository or environ.get(REPOSITORY_VARIABLE, "")
    if not name:
        return None
    with wanted("a pull request wants", extra="github"):
        from ci.core.github.client import TOKEN_VARIABLES, connect, find_token  # noqa: PLC0415  # an extra
    if not repository and not any(environ.get(one, "").strip() for one in TOKEN_VARIABLES):
        return None
    return Hub(name=name, client=connect(environ), token=find_token(environ))


def note_of(here: Repository, change: Change) -> str:
    """What is committed at the pin's place, where that is neither what was pinned nor what is to be.

    Raises:
        UsageError: the pin's file is not committed.
        SettingsError: there is no version at its key.
    """
    before = change.event.before.partition("@")[0]
    if change.pin is None or not before:
        return ""
    there = pinned_version(here, change.pin, here.head)
    if any(same_version(there, one) for one in (before, change.event.version)):
        return ""
    return f"the last upgrade was to {before}, and {there} is committed: somebody changed it by hand"
