"""The changelog and a release's notes, from the project's change fragments (towncrier)."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from ci.core.errors import BadFileError, UsageError
from ci.core.process import run_command
from ci.core.withheld import without_job_secrets
from ci.package.project import PYPROJECT, Project
from ci.package.text import harmless_lines

_TIMEOUT_S = 120
_OWN_FILE = "towncrier.toml"


def notes_of(project: Project, version: str, environ: Mapping[str, str]) -> str:
    """The notes of a release, as Markdown; nothing is changed.

    Args:
        project: whose fragments are read.
        version: of the release.
        environ: the user's variables.

    Raises:
        UsageError: it is no version, or the project keeps no fragments.
        BadFileError: towncrier's configuration cannot be read, or leads out of the project.
        CommandError: towncrier could not read them.
    """
    return _towncrier(project, version, environ, "--draft").strip() + "\n"


def write_changelog(project: Project, version: str, environ: Mapping[str, str], *, date: str) -> str:
    """Put the fragments into the project's changelog, and delete them; what towncrier said.

    Args:
        project: whose files are changed.
        version: of the release.
        environ: the user's variables.
        date: of the release, in ISO 8601.

    Raises:
        UsageError: it is no version, or the project keeps no fragments.
        BadFileError: towncrier's configuration cannot be read, or leads out of the project.
        CommandError: towncrier could not.
    """
    return _towncrier(project, version, environ, "--yes", f"--date={date}")


def refuse_outside(folder: Path, config: Mapping[str, Any], version: str, where: Path) -> None:
    """Raise where towncrier would read fragments of, or write to, what is not the project's.

    Args:
        folder: the project's.
        config: towncrier's.
        version: of the release, which may be a part of the changelog's name.
        where: the configuration stands.

    Raises:
        BadFileError: it would.
    """
    root = folder.resolve()
    for key, path in _paths(config, version):
        if not (root / path).resolve().is_relative_to(root):
            raise BadFileError(
                f"towncrier's {key} leads out of the project: {path}",
                where=where,
                remedy="name a place in the project, which no link leads out of",
            )


def _towncrier(project: Project, version: str, environ: Mapping[str, str], *words: str) -> str:
    try:
        Version(version)
    except InvalidVersion as error:
        raise UsageError(f"{version!r} is no version", where="VERSION", remedy="such as 1.2.3") from error
    config, where = _config(project)
    refuse_outside(project.folder, config, version, where)
    said = run_command(
        [sys.executable, "-P", "-m", "towncrier", "build", f"--version={version}", *words],
        timeout_s=_TIMEOUT_S,
        cwd=project.folder,
        # A template is a program of the project's.
        env=without_job_secrets(environ),
    )
    return harmless_lines(said)


def _config(project: Project) -> tuple[Mapping[str, Any], Path]:
    """Towncrier's configuration and its file; a file of its own wins, as towncrier has it."""
    own = project.folder / _OWN_FILE
    found, where = project.tool("towncrier"), project.folder / PYPROJECT
    if own.is_file():
        where = own
        try:
            found = tomllib.loads(own.read_text(encoding="utf-8")).get("tool", {}).get("towncrier")
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, AttributeError) as error:
            raise BadFileError(f"is no TOML of towncrier's: {error}", where=own) from error
    if not isinstance(found, dict):
        raise UsageError(
            "the project keeps no change fragments",
            where=where,
            remedy="add [tool.towncrier] and a folder for them",
        )
    return found, where


def _paths(config: Mapping[str, Any], version: str) -> Iterator[tuple[str, str]]:
    """What towncrier reads fragments of or writes, by key."""
    filename = str(config.get("filename", "NEWS.rst"))
    if config.get("single_file") is False:
        # In such a name a project's own name stands, which may be a path as well.
        name = str(config.get("name") or config.get("package") or "")
        # What towncrier cannot make a name of, it writes nothing to.
        with suppress(LookupError, ValueError, AttributeError):
            filename = filename.format(name=name, version=version, project_date="")
    yield "filename", filename
    below = str(config.get("directory") or config.get("package_dir") or ".")
    key = "directory" if config.get("directory") else "package_dir"
    yield key, below
    sections = config.get("section", ())
    for one in sections if isinstance(sections, list) else ():
        if isinstance(one, dict):
            yield "section", f"{below}/{one.get('path', '')}"
