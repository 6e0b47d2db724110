"""What was decided or recorded, as a branch and on GitHub one pull request of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ci.core.errors import UsageError
from ci.core.github.client import TOKEN_VARIABLES, Client, connect, find_token
from ci.core.github.errors import GitHubRefusedError
from ci.core.text import counted
from ci.pins.checkout import PLAIN, Checkout, Remote
from ci.pins.events import FILE, Upgraded, parse, with_line
from ci.pins.place import with_version
from ci.pins.tracks import Track
from ci.pins.words import listed
from test_selection.files import atomic_writer

REPOSITORY_VARIABLE = "GITHUB_REPOSITORY"
# GitHub takes 65,536 characters; counted in bytes, whoever counts otherwise finds fewer.
MAX_BYTES, MAX_TITLE = 65_000, 250
_CUT = "\n\nThe rest is left out for its size; `spyre-ci pins decide --checklist` prints all of it.\n"
# What makes an upgrade the same one, on whichever day it is decided.
_SAME = {"before", "version", "sha", "answers", "supersedes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An upgrade that is to be made; `text` is its checklist, for the pull request."""

    track: str
    event: Upgraded
    text: str

    @property
    def branch(self) -> str:
        """The same for the same upgrade, whoever makes it on whichever day."""
        told = self.event.model_dump_json(include=_SAME)
        digest = hashlib.sha256(told.encode()).hexdigest()[:8]
        version = re.sub(r"^\.|\.(?=\.)|[^A-Za-z0-9._+-]", "-", self.event.version[:100])
        return f"{folder_of(self.track)}/{version}-{digest}"

    @property
    def title(self) -> str:
        """What it does, on one line."""
        before, version = _plain(self.event.before.partition("@")[0]), _plain(self.event.version)
        if before == version:
            fix = f", with {_plain(self.event.sha[:12])}" if self.event.sha else ""
            return f"{self.track}: {version} rebuilt{fix}"
        return f"{self.track}: {f'{before} to ' if before else ''}{version}"

    @property
    def message(self) -> str:
        """The commit's: nothing that others wrote, as words in it skip workflows and close issues."""
        told = {"Answers": self.event.answers, "Supersedes": self.event.supersedes}
        lines = [f"{what}: {listed(f'request {one}' for one in ids)}" for what, ids in told.items() if ids]
        release = [f"Release: {_plain(self.event.sha)}"] if self.event.sha else []
        why = f"The last line of {FILE} says why; the pull request has the checklist."
        return "\n".join([self.title, "", *release, *lines, why, ""])


def folder_of(track: str) -> str:
    """What the branches of a track begin with; Git takes neither `..` nor `.lock` at an end."""
    return "pins/" + re.sub(r"\.(?=\.|lock$)", "-", track)


def _plain(name: str) -> str:
    """A version or a SHA with nothing that is more than a name in a commit's message."""
    return re.sub(r"[^A-Za-z0-9._+!-]", "-", name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """A pull request; its state is `opened` just now, else `open`, `closed` or `merged`."""

    number: int
    url: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A branch and its pull request.

    Attributes:
        branch: its name.
        commit: at its tip; empty where nothing had to be made.
        new: whether the commit was made just now.
        pull: None where there is no repository of GitHub's, or no token.
    """

    branch: str
    commit: str = ""
    new: bool = False
    pull: PullRequest | None = None

    @property
    def lines(self) -> Iterator[str]:
        """What became of it, for people."""
        if self.commit:
            yield f"branch {self.branch} {'was created' if self.new else 'already exists'}"
        if self.pull is None:
            yield f"to propose it: git push origin {self.branch}, then open a pull request from it"
            return
        said = {"closed": "was closed, and is not reopened", "merged": "is merged: pull it"}
        state = said.get(self.pull.state, f"is {self.pull.state}")
        yield f"pull request {self.pull.number} {state}: {self.pull.url}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GitHub:
    """A repository on GitHub, and the remote that leads there."""

    name: str
    client: Client
    remote: Remote

    def find(self, branch: str) -> PullRequest | None:
        """The newest pull request of a branch, open or not; None where there never was one."""
        query: dict[str, str | int] = {"head": f"{self.name.partition('/')[0]}:{branch}", "state": "all"}
        rows = self.client.pages(f"/repos/{self.name}/pulls", query, most=100)
        return _pull(rows[0], "merged" if rows[0].get("merged_at") else rows[0]["state"]) if rows else None

    def open(self, branch: str, title: str, text: str, *, base: str) -> PullRequest:
        """Open a pull request into `base`, or into the repository's own branch; an open one stays."""
        base = base or self.client.get(f"/repos/{self.name}")["default_branch"]
        body = {"title": title[:MAX_TITLE], "head": branch, "base": base, "body": clipped(text)}
        try:
            return _pull(self.client.send("POST", f"/repos/{self.name}/pulls", body), "opened")
        except GitHubRefusedError as error:
            # Somebody else may have opened it meanwhile.
            if "already exists" in error.what and (there := self.find(branch)):
                return there
            raise


def github_of(checkout: Checkout, environ: Mapping[str, str]) -> GitHub | None:
    """GitHub's repository, by the environment; None where it, or a token for it, is not found.

    Raises:
        SettingsError: the API's address is none.
        CommandError: the library for GitHub is not installed, or the checkout has no remote `origin`.
    """
    name = environ.get(REPOSITORY_VARIABLE, "")
    if not name or not any(environ.get(one, "").strip() for one in TOKEN_VARIABLES):
        return None
    client = connect(environ)
    remote = Remote(checkout, "origin", api=client.api, token=find_token(environ))
    return GitHub(name=name, client=client, remote=remote)


def send_change(
    checkout: Checkout, github: GitHub | None, track: Track, change: Change, *, now: float
) -> Sent:
    """Make an upgrade's branch and its pull request; what is there already, here or on GitHub, stays.

    Raises:
        UsageError: the pin's file is not committed, or a file is outside of the repository.
        SpyreCiError: Git, the remote or GitHub refused or did not answer.
    """
    branch = change.branch
    pull = github.find(branch) if github else None
    if pull is not None and pull.state != "open":
        return Sent(branch=branch, pull=pull)
    there = github.remote.tip(branch) if github else ""
    commit = there or checkout.tip(branch)
    new = not commit
    if new:
        commit = checkout.commit(branch, change_files(checkout, track, change), change.message, now=now)
    if github and not there:
        github.remote.push(branch)
    if github and pull is None:
        pull = github.open(branch, change.title, change.text, base=checkout.on)
    return Sent(branch=branch, commit=commit, new=new, pull=pull)


def change_files(checkout: Checkout, track: Track, change: Change) -> dict[str, tuple[str, bytes]]:
    """Mode and content of what an upgrade writes: records not yet committed, the event, the pin."""
    events = track.folder / FILE
    content = events.read_bytes() if events.exists() else b""
    parse(content, events)
    files = _new_records(checkout, track)
    files[checkout.name_of(events)] = (PLAIN, with_line(content, change.event))
    if track.pin is not None:
        name = checkout.name_of(track.pin.file)
        found = checkout.file(checkout.head, name)
        if found is None:
            remedy = "commit it first, or check the pin's file"
            raise UsageError("is not committed, so it cannot be changed", where=track.pin.file, remedy=remedy)
        files[name] = (found[0], with_version(track.pin.file, found[1], track.pin.key, change.event.version))
    return files


def restore_records(checkout: Checkout, github: GitHub | None, track: Track) -> None:
    """Write the records into the checkout that the ledger's branch has, so that nothing is looked at twice.

    Raises:
        UsageError: that branch is checked out.
        SpyreCiError: Git or the remote did not answer.
    """
    branch = _ledger_branch(track)
    if branch == checkout.on:
        remedy = "check out the branch it will be merged into"
        raise UsageError(f"branch {branch} is checked out", where=checkout.top, remedy=remedy)
    if github and not checkout.tip(branch) and github.remote.tip(branch):
        github.remote.fetch(branch)
    tip = checkout.tip(branch)
    for name in sorted(checkout.files(tip, checkout.name_of(track.folder))):
        path = checkout.top / name
        if name.endswith(".json") and not path.exists() and (found := checkout.file(tip, name)):
            with atomic_writer(path) as stream:
                stream.write(found[1])


def keep_records(checkout: Checkout, github: GitHub | None, track: Track, *, now: float) -> Sent:
    """Keep records that are not committed on the ledger's branch, with a pull request where none is open.

    Raises:
        SpyreCiError: Git, the remote or GitHub refused or did not answer.
    """
    branch, files = _ledger_branch(track), _new_records(checkout, track)
    if not files:
        return Sent(branch=branch)
    tip = checkout.tip(branch)
    there = checkout.files(tip, checkout.name_of(track.folder))
    new = {name: one for name, one in files.items() if name not in there}
    if new:
        title = f"{track.name}: {counted(len(new), 'release')} recorded"
        tip = checkout.commit(branch, new, "\n".join([title, "", *new, ""]), now=now, on=tip)
    pull = None
    if github:
        github.remote.push(branch)
        pull = github.find(branch)
        if pull is None or (new and pull.state != "open"):
            title = f"{track.name}: {counted(len(files), 'release')} recorded"
            text = "\n".join(["This upgrades nothing. It adds:\n", *(f"- `{one}`" for one in files), ""])
            pull = github.open(branch, title, text, base=checkout.on)
    return Sent(branch=branch, commit=tip, new=bool(new), pull=pull)


def clipped(text: str) -> str:
    """As many whole lines of a text as GitHub takes; pure."""
    if len(text.encode()) <= MAX_BYTES:
        return text
    cut = text.encode()[: MAX_BYTES - len(_CUT)].decode(errors="ignore")
    return cut.rpartition("\n")[0] + _CUT


def _ledger_branch(track: Track) -> str:
    return f"{folder_of(track.name)}/ledger"


def _new_records(checkout: Checkout, track: Track) -> dict[str, tuple[str, bytes]]:
    """Mode and content of the records that are not in what is checked out, by name."""
    there = checkout.files(checkout.head, checkout.name_of(track.folder))
    paths = {checkout.name_of(path): path for path in sorted(track.folder.glob("*.json"))}
    return {name: (PLAIN, path.read_bytes()) for name, path in paths.items() if name not in there}


def _pull(row: Any, state: str) -> PullRequest:
    return PullRequest(number=row["number"], url=row["html_url"], state=state)
