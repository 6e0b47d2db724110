"""A shared folder as a store of claims.

Laid out as:

- `plan`: a symbolic link to the terms of the run and the name of the session, made by the first host;
- `<session>/claims/<shard>/<piece>.<generation>`: a symbolic link to the name of the host that has it;
- `<session>/hosts/<host>.jsonl`: what a host says, written by it alone.

A claim is a symbolic link because making one is a single operation that fails where something stands, over
NFS as well, and it carries who made it: there is no moment at which a claim is there and empty, as with a
file that is created and then written. A lost reply over NFS makes it look as if another had been first; who
is told so reads the link and finds its own name. Nothing is locked, so nobody can die with a lock.

A folder that is removed under a run is noticed, for the session's folder is made once: a run that begins in
its place has another.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
from pathlib import Path

from ci.runner.claims.store import StoreLostError

SEPARATOR = ":"
_SESSION = re.compile(r"[0-9a-f]{8}")
SUFFIX = ".jsonl"


class FolderStore:
    """One run's claims in a folder.

    Attributes:
        path: the run's folder.
    """

    def __init__(self, path: Path, me: str) -> None:
        self.path = path
        self._me = me
        self._session = path
        self._read: dict[str, int] = {}
        self._unheard: list[tuple[str, str]] = []
        self._torn = False

    def begin(self, terms: str) -> str:
        """Join the run; see `Store.begin`.

        Raises:
            OSError: the folder cannot be made, or takes no symbolic links, or holds something else.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        mine = f"{terms}{SEPARATOR}{secrets.token_hex(4)}"
        stands, _, session = _link(self.path / "plan", mine).rpartition(SEPARATOR)
        if not _SESSION.fullmatch(session):  # it becomes a path
            raise OSError(
                errno.EINVAL, "it contains files of another kind than a shared run's", self.path / "plan"
            )
        self._session = self.path / session
        for name in ("", "claims", "hosts"):
            # Only here: a folder that goes later must not come back empty.
            (self._session / name).mkdir(exist_ok=True)
        return stands

    def put(self, key: str, value: str) -> str:
        """Keep a value; see `Store.put`. An empty or strange file under the key stands for nobody's name."""
        path = self._session / "claims" / key
        try:
            try:
                return _link(path, value)
            except FileNotFoundError:
                with contextlib.suppress(FileExistsError):
                    path.parent.mkdir()
                return _link(path, value)
        except OSError as error:
            raise self._lost(error) from error

    def say(self, line: str) -> None:
        """Add a line; see `Store.say`."""
        content = ("\n" if self._torn else "") + line + "\n"
        try:
            # Closed each time: over NFS that is when others get to see it.
            with (self._session / "hosts" / f"{self._me}{SUFFIX}").open("ab", buffering=0) as stream:
                self._torn = True
                self._torn = stream.write(content.encode()) != len(content.encode())
        except OSError as error:
            raise self._lost(error) from error

    def hear(self) -> list[tuple[str, str]]:
        """What others said; see `Store.hear`."""
        try:
            for path in sorted((self._session / "hosts").glob(f"*{SUFFIX}")):
                if path.stem != self._me and not _strange(path):
                    self._unheard += [(path.stem, line) for line in self._news(path)]
        except OSError as error:
            # What was read until then is told the next time.
            raise self._lost(error) from error
        found, self._unheard = self._unheard, []
        return found

    def close(self) -> None:
        """Nothing is held open."""

    def _news(self, path: Path) -> list[str]:
        """The whole lines that are new; the beginning of one that is being written waits for its end."""
        with path.open("rb") as stream:
            stream.seek(self._read.get(path.name, 0))
            data = stream.read()
        whole, newline, _ = data.rpartition(b"\n")
        self._read[path.name] = self._read.get(path.name, 0) + len(whole) + len(newline)
        return whole.decode(errors="replace").split("\n") if newline else []

    def _lost(self, error: OSError) -> StoreLostError:
        return StoreLostError(f"{error.filename or self._session}: {error.strerror or error}")


def _strange(path: Path) -> bool:
    """Whether no host has written it: a pipe, which would be waited for, or a name that is no text."""
    return path.is_fifo() or path.is_socket() or _text(path) != str(path)


def _text(path: Path) -> str:
    return os.fsencode(path).decode(errors="replace")


def _link(path: Path, value: str) -> str:
    try:
        path.symlink_to(value)
    except FileExistsError:
        try:
            return _text(path.readlink())
        except OSError:
            # Made by something else than us, such as a copy without links.
            return ""
    return value
