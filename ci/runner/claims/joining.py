"""Joining other hosts: which store an address means, and whether those there run the same plan.

The names a run folder's hosts had are kept in a file, one a line, appended and synced before the name claims
anything; who resumes the run knows which of the dead were itself. A line that was cut names nobody.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.core.addresses import shown
from ci.core.errors import CommandError, FileSystemError, PlanMismatchError, SettingsError
from ci.runner.claims.folder import FolderStore
from ci.runner.claims.session import ClaimSession
from ci.runner.claims.store import Store, StoreLostError
from test_selection.pieces import Piece

NAMES_FILE = "share-names.txt"
REDIS = ("redis://", "rediss://", "unix://")
_STRANGE = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSettings:
    """Where the hosts of a run share, and how.

    Attributes:
        where: a folder, or the URL of a Redis; shown without what may be secret in it.
        run: the name of the run, the same on all hosts.
        lease_s: after so many seconds of silence a host is taken to be dead.
        clock: seconds that never go back.
        say: takes what people should know.
        password: of the Redis, where the URL has none.
        names: file that keeps the names of this host for who resumes the run; None where nobody can.
        left: the ids this host is to finish, where its run was resumed; None where it was not.
    """

    where: str
    run: str
    lease_s: float
    clock: Callable[[], float]
    say: Callable[[str], None]
    password: str | None = None
    names: Path | None = None
    left: Collection[str] | None = None

    def join(self, fingerprint: str, rows: Sequence[Sequence[Piece]], look_s: float) -> ClaimSession:
        """Join the other hosts, or be the first.

        Args:
            fingerprint: of the plan.
            rows: the pieces of each shard, as every host cuts them.
            look_s: how often hosts look at what the others do, in seconds.

        Raises:
            SettingsError: the address is none, or the package for it is missing.
            FileSystemError: the folder, or the file of names, cannot be used.
            CommandError: the Redis does not answer.
            PlanMismatchError: the others run another plan, or cut it otherwise.
        """
        me = f"{_STRANGE.sub('_', os.uname().nodename)}-{os.getpid()}-{secrets.token_hex(3)}"
        store = self._store(me)
        try:
            self._agree(store, fingerprint, cut_digest(rows))
        except PlanMismatchError:
            store.close()
            raise
        except OSError as error:
            raise FileSystemError(
                f"cannot be shared: {error.strerror or error}",
                where=self.where,
                remedy="name a folder in `run.share` that every host can write and that takes symbolic "
                "links, or the URL of a Redis",
            ) from error
        except StoreLostError as error:
            store.close()
            raise CommandError(
                f"{shown(self.where)}: {error}",
                remedy="check `run.share` and the password, or run every shard by itself with --static",
            ) from error
        former: frozenset[str] = frozenset()
        if self.names is not None:
            former = frozenset() if self.left is None else read_names(self.names)
            note_name(self.names, me)
        return ClaimSession(
            store,
            me=me,
            clock=self.clock,
            lease_s=self.lease_s,
            look_s=look_s,
            say=self.say,
            former=former,
            again=self._again(rows),
        )

    def _again(self, rows: Sequence[Sequence[Piece]]) -> set[tuple[int, int]]:
        """The pieces that this host is to finish."""
        left = set(self.left or ())
        return {
            (shard, piece.number)
            for shard, row in enumerate(rows)
            for piece in row
            if not left.isdisjoint(piece.ids)
        }

    def _store(self, me: str) -> Store:
        run = _STRANGE.sub("_", self.run)
        if not self.where.startswith(REDIS):
            if "://" in self.where:
                raise SettingsError(
                    f"{shown(self.where)!r} is no folder and no Redis",
                    where="run.share",
                    remedy="name a folder, or a URL that begins with " + ", ".join(REDIS),
                )
            return FolderStore(Path(self.where) / f"run-{run}", me)
        try:
            # An extra: who shares by a folder, or not at all, does without the package.
            from ci.runner.claims.redis import RedisStore  # noqa: PLC0415
        except ImportError as error:
            raise SettingsError(
                "`run.share` names a Redis, and the package for it is not installed",
                where="run.share",
                remedy="pip install 'spyre-ci[redis]'",
            ) from error
        try:
            return RedisStore(self.where, run, me, password=self.password)
        except ValueError as error:
            raise SettingsError(
                f"{shown(self.where)!r} is not the URL of a Redis",
                where="run.share",
                remedy="write redis://host:6379/0; in a password, / @ ? # and blanks are escaped (%2F for /)",
            ) from error

    def _agree(self, store: Store, fingerprint: str, cut: str) -> None:
        stands = store.begin(f"{fingerprint}:{cut}")
        theirs, _, their_cut = stands.partition(":")
        if theirs != fingerprint:
            raise PlanMismatchError(
                f"other hosts run the plan {theirs[:12] or '?'} as {self.run!r}, this one {fingerprint[:12]}",
                where=shown(self.where),
                remedy="hand the same plan.json and run.json to every host",
            )
        if their_cut != cut:
            raise PlanMismatchError(
                "other hosts cut the same plan into other pieces",
                where=shown(self.where),
                remedy="hand the same durations.json.gz, which lies beside plan.json, to every host",
            )


def cut_digest(rows: Sequence[Sequence[Piece]]) -> str:
    """SHA-256 (hex) over the ids of each piece of each shard, in order."""
    digest = hashlib.sha256()
    for row in rows:
        for piece in row:
            digest.update("\0".join(piece.ids).encode() + b"\1")
        digest.update(b"\2")
    return digest.hexdigest()


def note_name(path: Path, name: str) -> None:
    """Note a name for whoever resumes the run.

    Raises:
        FileSystemError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as stream:
            # After whatever a cut left.
            stream.write(f"\n{name}\n".encode())
            os.fsync(stream.fileno())
    except OSError as error:
        raise FileSystemError(
            f"the name of this host in the share cannot be noted: {error.strerror or error}",
            where=path,
            remedy="check the space and the rights of the run folder",
        ) from error


def read_names(path: Path) -> frozenset[str]:
    """The names that were noted; none where there is no such file, or none that can be read."""
    try:
        return frozenset(path.read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return frozenset()
