"""The change of a pin: what the commit holds, its branch, and which branches hold one that is not merged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.config.load import Settings
from ci.config.pins_model import PinPlace
from ci.core.errors import (
    EXIT_TEST_FAILED,
    BadFileError,
    CommandError,
    SettingsError,
    SpyreCiError,
    UsageError,
)
from ci.core.git import git
from ci.pins.branch import PLAIN, Repository, content_at, make_branch, name_in, repository_at, tip_of
from ci.pins.diary import FILE, parse, with_line
from ci.pins.events import Upgraded
from ci.pins.ledger import track_folder
from ci.pins.place import read_version, with_version
from ci.pins.words import listed

# Of an event these differ from one day to the next, and say nothing of what is changed.
_TOLD = {"at", "reasons"}


def _harmless(name: str) -> str:
    """A version or a SHA with nothing that is more than a name in a commit's message."""
    return re.sub(r"[^A-Za-z0-9._+!-]", "-", name)


class BranchTakenError(SpyreCiError):
    """The change's branch is there, and holds something else."""

    exit_code = EXIT_TEST_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An upgrade that is to be made.

    Attributes:
        track: its name.
        folder: of its ledger.
        pin: where its version stands, `file` made absolute; None where it stands nowhere.
        event: the upgrade.
        text: the checklist, as Markdown, for a pull request.
        times: the track was at this version before, built again with a mend or gone back to, or this version
            was declined or taken back.
    """

    track: str
    folder: Path
    pin: PinPlace | None
    event: Upgraded
    text: str
    times: int = 0

    @property
    def rebuild(self) -> bool:
        """Whether the version stays, and only what it is made of is another."""
        return self.event.before.partition("@")[0] == self.event.version

    @property
    def title(self) -> str:
        """What it does, on one line."""
        version = _harmless(self.event.version)
        if self.rebuild:
            anew = f", with {_harmless(self.event.sha[:12])}" if self.event.sha else ""
            return f"{self.track}: {version} built again{anew}"
        before = _harmless(self.event.before.partition("@")[0])
        return f"{self.track}: {f'{before} to ' if before else ''}{version}"

    @property
    def message(self) -> str:
        """The commit's: nothing that others wrote, as words in it skip workflows and close issues."""
        sha = _harmless(self.event.sha)
        told = {"Release": sha, "Answers": self.event.answers, "Supersedes": self.event.supersedes}
        lines = [
            f"{what}: {one if isinstance(one, str) else listed(f'request {number}' for number in one)}"
            for what, one in told.items()
            if one
        ]
        why = f"Why: the last line of {FILE}; the checklist: the text of the pull request."
        return "\n".join([self.title, "", *lines, why, ""])

    @property
    def branch(self) -> str:
        """The same for the same upgrade, whoever makes it."""
        # What was merged once may still have its branch, and has its pull request for ever.
        again = f"-{self.times + 1}" if self.times else ""
        name = f"{self.track}-{self.event.version[:100]}{again}"
        return "pins/" + re.sub(r"\.(?=\.|$)|\.lock$|[^A-Za-z0-9._+-]", "-", name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A change as a branch.

    Attributes:
        branch: its name.
        commit: at its tip.
        new: whether it was made just now.
        files: what the change writes, by name.
    """

    branch: str
    commit: str
    new: bool
    files: Sequence[str]


def make_change(repository: Repository, change: Change, *, now: float) -> Made:
    """Make a change's branch; where it is there with the same upgrade, nothing is done.

    Args:
        repository: of the pin and the ledger.
        change: what is upgraded.
        now: seconds since the epoch.

    Raises:
        BranchTakenError: the branch is there and is no branch of this upgrade.
        UsageError: the pin's file is not committed, or a file is outside of the repository.
        SettingsError: there is no version at the pin's key.
        BadFileError: a line of the events is none.
        CommandError: git refused.
    """
    files = _files(repository, change)
    tip = tip_of(repository, change.branch)
    if tip is None:
        try:
            commit = make_branch(repository, change.branch, files, change.message, now=now)
        except CommandError:
            # Another process may have made it meanwhile.
            tip = tip_of(repository, change.branch)
            if tip is None:
                raise
        else:
            return Made(branch=change.branch, commit=commit, new=True, files=sorted(files))
    if other := _otherwise(repository, change, tip):
        raise BranchTakenError(
            f"branch {change.branch} is there already, and {other}",
            where=repository.top,
            remedy="look at it; where it may go, delete it, here and where it was sent to, and do this again",
        )
    return Made(branch=change.branch, commit=tip, new=False, files=sorted(files))


def pinned_version(repository: Repository, pin: PinPlace, commit: str) -> str:
    """The version that a commit has at the pin's place.

    Raises:
        UsageError: it has no such file.
        SettingsError: there is no version at the key.
    """
    return read_version(pin.file, _pin_file(repository, pin, commit)[1], pin.key)


def upgrade_at(repository: Repository, change: Change, commit: str) -> Upgraded | None:
    """The last upgrade that a commit has of a change's track; None where it has none.

    Raises:
        BadFileError: a line of its events is none.
        UsageError: its events are no file.
    """
    return (None, *upgrades_at(repository, change.folder, commit))[-1]


def upgrades_at(repository: Repository, folder: Path, commit: str) -> list[Upgraded]:
    """The upgrades that a commit has of a track, in the order they were told.

    Args:
        repository: of the ledger.
        folder: of the track's ledger.
        commit: or a branch.

    Raises:
        BadFileError: a line of its events is none.
        UsageError: its events are no file, or outside of the repository.
    """
    path = folder / FILE
    found = content_at(repository, commit, name_in(repository, path))
    events = parse(found[1], path) if found else []
    return [one for one in events if isinstance(one, Upgraded)]


def _files(repository: Repository, change: Change) -> dict[str, tuple[str, bytes]]:
    """Mode and content of what the change writes, by name."""
    records = sorted(change.folder.glob("*.json")) if change.folder.is_dir() else []
    files = {name_in(repository, path): (PLAIN, path.read_bytes()) for path in records}
    events = change.folder / FILE
    content = events.read_bytes() if events.is_file() else b""
    parse(content, events)
    files[name_in(repository, events)] = (PLAIN, with_line(content, change.event))
    if change.pin is not None:
        mode, before = _pin_file(repository, change.pin, repository.head)
        after = with_version(change.pin.file, before, change.pin.key, change.event.version)
        files[name_in(repository, change.pin.file)] = (mode, after)
    return files


def _pin_file(repository: Repository, pin: PinPlace, commit: str) -> tuple[str, bytes]:
    found = content_at(repository, commit, name_in(repository, pin.file))
    if found is None:
        raise UsageError(
            "is not committed, so that no change of it can be made",
            where=pin.file,
            remedy="commit it first, or check the pin's file",
        )
    return found


def _otherwise(repository: Repository, change: Change, tip: str) -> str:
    """What is another on a branch that is there; empty where it holds this upgrade."""
    try:
        there = upgrade_at(repository, change, tip)
        version = pinned_version(repository, change.pin, tip) if change.pin else change.event.version
    except (BadFileError, SettingsError, UsageError) as error:
        return f"cannot be compared: {error.what}"
    if there is None:
        return "holds no upgrade"
    if version != change.event.version:
        return f"pins {version}, not {change.event.version}"
    was, now = there.model_dump(exclude=_TOLD), change.event.model_dump(exclude=_TOLD)
    return "; ".join(f"has {key} {was[key]!r}, not {now[key]!r}" for key in was if was[key] != now[key])


def unmerged(settings: Settings, track: str) -> list[str]:
    """A track's branches, here and as they were fetched, with an upgrade that what is checked out has not.

    Args:
        settings: with the track.
        track: its name.
    """
    # Without a checkout there are none; and what Git does not tell, such as of another owner's, is no branch.
    if not any((folder / ".git").exists() for folder in (settings.base, *settings.base.parents)):
        return []
    try:
        here = repository_at(settings.base)
        folder = track_folder(settings, track)
        known = {*upgrades_at(here, folder, here.head)}
        found = _branches(settings, here, track)
        return [branch for branch in found if {*upgrades_at(here, folder, branch)} - known]
    except SpyreCiError:
        return []


def _branches(settings: Settings, here: Repository, track: str) -> list[str]:
    patterns = [f"refs/{place}/pins/{track}-*" for place in ("heads", "remotes/*")]
    listed = git(here.top, "for-each-ref", "--format=%(refname)", *patterns).split()
    # Another track may be called `torch-next`.
    longer = [f"/pins/{one}-" for one in settings.model.pins.tracks if one.startswith(f"{track}-")]
    mine = [ref for ref in listed if not any(other in ref for other in longer)]
    return [ref.removeprefix("refs/").removeprefix("heads/").removeprefix("remotes/") for ref in mine]
