"""What was recorded is kept also where nothing is upgraded: on a branch of the track's ledger, day by day.

A checkout that a CI makes anew has the ledger as it was merged; what the branch has besides is put into it
first, so that no release is looked at twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ci.config.load import Settings
from ci.core.errors import UsageError
from ci.core.text import counted
from ci.pins.applying import hub_of
from ci.pins.branch import PLAIN, content_at, files_in, make_branch, name_in, repository_at, tip_of
from ci.pins.ledger import track_folder
from ci.pins.push import Remote
from test_selection.files import atomic_writer

if TYPE_CHECKING:
    from ci.pins.pull import Pull


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Releases of a track that are on its ledger's branch, and not in what is checked out.

    Attributes:
        track: its name.
        names: of their files.
        commit: at the branch's tip; empty where nothing is to be kept.
        pull: its pull request; None where none was to be opened.
    """

    track: str
    names: Sequence[str] = ()
    commit: str = ""
    pull: Pull | None = None

    @property
    def branch(self) -> str:
        """Of the ledger."""
        return f"pins/{self.track}-ledger"

    @property
    def title(self) -> str:
        """What it does, on one line."""
        return f"{self.track}: {counted(len(self.names), 'release')} recorded"

    @property
    def text(self) -> str:
        """What it adds, as Markdown; a file's name holds nothing that is more than a name."""
        return "Nothing is upgraded by this. It adds:\n\n" + "".join(f"- `{name}`\n" for name in self.names)

    def line(self, remote: str) -> str:
        """For people; pure."""
        if not self.names:
            return f"{self.track}: all of its releases are committed"
        what = f"{self.track}: {counted(len(self.names), 'release')} kept on branch {self.branch}"
        if self.pull is None:
            return f"{what}; to open it: git push {remote} {self.branch}, and a pull request from it"
        return f"{what}; pull request {self.pull.number} is {self.pull.state}: {self.pull.url}"


class Keeper:
    """Keeps the ledgers of a checkout's settings.

    Args:
        settings: with the tracks.
        environ: the environment, which may name GitHub's repository and a token.
        remote: what Git knows that repository by.
        base: the branch that pull requests are to go into; empty: the one checked out.

    Raises:
        SpyreCiError: there is no checkout, or no such remote.
    """

    def __init__(self, settings: Settings, environ: Mapping[str, str], *, remote: str, base: str) -> None:
        self._settings = settings
        self._here = repository_at(settings.base)
        self._base = base or self._here.on
        self._hub = hub = hub_of("", environ)
        self._far = None if hub is None else Remote(self._here, remote, api=hub.client.api, token=hub.token)

    def restore(self, track: str) -> None:
        """Put the releases that the branch has, and the checkout has not, into the checkout.

        Raises:
            SpyreCiError: Git or the remote did not answer, or the branch is checked out.
        """
        branch, folder = Kept(track=track).branch, track_folder(self._settings, track)
        if branch == self._here.on:
            raise UsageError(
                f"branch {branch} is checked out",
                where=self._here.top,
                remedy="check out the one it goes into",
            )
        if self._far is not None:
            self._far.fetch(branch)
        tip = tip_of(self._here, branch)
        for name in sorted(files_in(self._here, tip, name_in(self._here, folder))) if tip else ():
            path = self._here.top / name
            missing = name.endswith(".json") and not path.exists()
            found = content_at(self._here, str(tip), name) if missing else None
            if found is not None:
                with atomic_writer(path) as stream:
                    stream.write(found[1])

    @contextmanager
    def keeping(self, track: str, kept: dict[str, Kept]) -> Iterator[None]:
        """Have what the branch has while the block records more, then keep that.

        Args:
            track: its name.
            kept: gets what came of it.

        Raises:
            SpyreCiError: see `restore` and `keep`.
        """
        self.restore(track)
        yield
        kept[track] = self.keep(track, now=datetime.now(UTC).timestamp())

    def keep(self, track: str, *, now: float) -> Kept:
        """Add what is not committed to the branch, and open its pull request where none is; again: nothing.

        Args:
            track: its name.
            now: seconds since the epoch.

        Raises:
            SpyreCiError: Git, the remote or GitHub refused or did not answer.
        """
        here, folder = self._here, track_folder(self._settings, track)
        inside = name_in(here, folder)
        files = {name_in(here, path): path for path in folder.glob("*.json")}
        kept = Kept(track=track, names=sorted(files.keys() - files_in(here, here.head, inside)))
        if not kept.names:
            return kept
        tip = tip_of(here, kept.branch)
        new = sorted({*kept.names} - (files_in(here, tip, inside) if tip else set()))
        if new:
            added = {name: (PLAIN, files[name].read_bytes()) for name in new}
            listed = "".join(f"{name}\n" for name in new)
            message = f"{track}: {counted(len(new), 'release')} recorded\n\n{listed}"
            tip = make_branch(here, kept.branch, added, message, now=now, on=tip or "")
        pull = self._sent(kept, again=bool(new))
        return Kept(track=track, names=kept.names, commit=str(tip), pull=pull)

    def _sent(self, kept: Kept, *, again: bool) -> Pull | None:
        if self._hub is None or self._far is None:
            return None
        from ci.pins.pull import find_pull, open_pull  # noqa: PLC0415  # with PyGithub, an extra

        self._far.push(kept.branch)
        pull = find_pull(self._hub.client, self._hub.name, kept.branch)
        if pull is None or (pull.state != "open" and again):
            return open_pull(self._hub.client, self._hub.name, kept, base=self._base)
        return pull
