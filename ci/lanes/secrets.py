"""Secrets of lanes, from the environment or a file: whether all are there, and each lane's own (law 9)."""

from __future__ import annotations

import io
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from dotenv.parser import parse_stream

from ci.config.lanes_model import Lane
from ci.core.errors import SettingsError
from ci.core.secrets import read_secret
from ci.core.withheld import without_job_secrets

# Nobody else reads it or writes to it; a group may read it, as where a cluster mounts it.
_TOO_OPEN = stat.S_IRWXO | stat.S_IWGRP


class Secrets:
    """The secrets of lanes.

    Args:
        lanes: all of the settings.
        environ: the environment, which beats the file.
        path: the file, NAME=value a line; it need not be there.
        named: whether somebody chose the path; a folder of the usual name is a virtual environment, not it.

    Raises:
        SettingsError: others may read the file, or it is none of secrets.
    """

    def __init__(
        self, lanes: Mapping[str, Lane], environ: Mapping[str, str], path: Path, *, named: bool = True
    ) -> None:
        self._lanes, self._path = lanes, path
        self._there = path.exists() and (named or not path.is_dir())
        self._values = {**(_read(path) if self._there else {}), **{k: v for k, v in environ.items() if v}}
        self._whole = {**environ, **self._values}
        listed = {name for lane in lanes.values() for name in lane.secrets}
        self._rest = {k: v for k, v in without_job_secrets(environ).items() if k not in listed}

    def check(self, lanes: Iterable[str]) -> None:
        """See to it that lanes have all they need.

        Raises:
            SettingsError: they have not; every name that is missing, and whose it is.
        """
        missing: dict[str, list[str]] = {}
        for lane in lanes:
            for name in self._lanes[lane].secrets:
                if not self._values.get(name):
                    missing.setdefault(name, []).append(lane)
        if missing:
            told = "; ".join(f"{name} (lane {', '.join(whose)})" for name, whose in sorted(missing.items()))
            raise SettingsError(
                f"there is no value of {told}",
                where=self._path,
                remedy=f"set each in the environment or in {'this file' if self._there else 'such a file'} "
                "(`lane_worker.secrets`), NAME=value a line, or take it from `secrets` of its lane",
            )

    def whole(self, _lane: str) -> Mapping[str, str]:
        """The environment with the file's secrets, for this process itself, which reaches a lane's CI."""
        return self._whole

    def environ(self, lane: str) -> dict[str, str]:
        """The environment of a lane: without anybody's secrets but its own.

        Raises:
            SettingsError: it has not all it needs.
        """
        self.check([lane])
        return {**self._rest, **{name: self._values[name] for name in self._lanes[lane].secrets}}


def _read(path: Path) -> dict[str, str]:
    if path.is_dir():
        raise SettingsError(
            "is a folder, and secrets stand in a file",
            where=path,
            remedy="name the file in `lane_worker.secrets`",
        )
    if path.stat().st_mode & _TOO_OPEN:
        raise SettingsError(
            f"others may read or change it (its mode is {stat.S_IMODE(path.stat().st_mode):04o}), and it "
            "holds secrets",
            where=path,
            remedy=f"chmod 600 {path}",
        )
    found = {}
    for binding in parse_stream(io.StringIO(read_secret(path, "secrets"))):
        if binding.error or "\0" in (binding.value or ""):
            raise SettingsError(
                "cannot be read as NAME=value",
                where=f"{path}:{binding.original.line}",
                remedy="put a value with blanks, quotes or several lines between quotes",
            )
        if binding.key is not None:
            # As it stands there: a password may hold what looks like a variable.
            found[binding.key] = binding.value or ""
    return found
