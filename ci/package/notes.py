"""The changelog and a release's notes, from the project's change fragments (towncrier)."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from ci.errors import UsageError
from ci.package.project import PYPROJECT, Project
from ci.process import run_command

_TIMEOUT_S = 120


def notes_of(project: Project, version: str, environ: Mapping[str, str]) -> str:
    """The notes of a release, as Markdown; nothing is changed.

    Args:
        project: whose fragments are read.
        version: of the release.
        environ: the user's variables.

    Raises:
        UsageError: the project keeps no fragments.
        CommandError: towncrier could not read them.
    """
    return _towncrier(project, environ, "build", "--draft", "--version", version).strip() + "\n"


def write_changelog(project: Project, version: str, environ: Mapping[str, str], *, date: str) -> str:
    """Put the fragments into the project's changelog, and delete them; what towncrier said.

    Args:
        project: whose files are changed.
        version: of the release.
        environ: the user's variables.
        date: of the release, in ISO 8601.

    Raises:
        UsageError: the project keeps no fragments.
        CommandError: towncrier could not.
    """
    return _towncrier(project, environ, "build", "--yes", "--version", version, "--date", date)


def _towncrier(project: Project, environ: Mapping[str, str], *words: str) -> str:
    if project.tool("towncrier") is None and not (project.folder / "towncrier.toml").is_file():
        raise UsageError(
            "the project keeps no change fragments",
            where=project.folder / PYPROJECT,
            remedy="add [tool.towncrier] and a folder for them",
        )
    return run_command(
        [sys.executable, "-P", "-m", "towncrier", *words],
        timeout_s=_TIMEOUT_S,
        cwd=project.folder,
        env=environ,
    )
