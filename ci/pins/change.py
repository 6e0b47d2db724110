"""The change of a pin: its branch, its title and its commit's message; pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from ci.pins.events import FILE, Upgraded
from ci.pins.words import listed

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
        version = re.sub(r"\.(?=\.)|[^A-Za-z0-9._+-]", "-", self.event.version[:100])
        return f"{folder_of(self.track)}/{version}-{digest}"

    @property
    def title(self) -> str:
        """What it does, on one line."""
        before, version = _plain(self.event.before.partition("@")[0]), _plain(self.event.version)
        if before == version:
            fix = f", with {_plain(self.event.sha[:12])}" if self.event.sha else ""
            return f"{self.track}: {version} built again{fix}"
        return f"{self.track}: {f'{before} to ' if before else ''}{version}"

    @property
    def message(self) -> str:
        """The commit's: nothing that others wrote, as words in it skip workflows and close issues."""
        told = {"Answers": self.event.answers, "Supersedes": self.event.supersedes}
        lines = [f"{what}: {listed(f'request {one}' for one in ids)}" for what, ids in told.items() if ids]
        release = [f"Release: {_plain(self.event.sha)}"] if self.event.sha else []
        why = f"Why: the last line of {FILE}; the checklist: the text of the pull request."
        return "\n".join([self.title, "", *release, *lines, why, ""])


def folder_of(track: str) -> str:
    """What the branches of a track begin with; Git takes neither `..` nor `.lock` at an end."""
    return "pins/" + re.sub(r"\.(?=\.|lock$)", "-", track)


def _plain(name: str) -> str:
    """A version or a SHA with nothing that is more than a name in a commit's message."""
    return re.sub(r"[^A-Za-z0-9._+!-]", "-", name)
