"""What the verbs of `spyre-ci package` work with, as settings and flags have it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from ci.config import Settings, load_settings
from ci.config.context import settings_from_context
from ci.config.package_model import Index, Package
from ci.core.errors import RunInUseError, UsageError
from ci.core.locks import alone
from ci.core.text import escaped
from ci.package.environment import fitting, torch_pin
from ci.package.project import Project, read_project
from ci.package.records import Record, write_record


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A project, the settings it is packaged with, and the folders that this takes.

    Attributes:
        project: the checkout.
        settings: all of them.
        dist: folder of sdist and wheel.
        records: folder of what is noted of each step.
    """

    project: Project
    settings: Settings
    dist: Path
    records: Path

    @property
    def package(self) -> Package:
        """The settings of packaging."""
        return self.settings.model.package

    @property
    def constraints(self) -> tuple[str, ...]:
        """Requirements that hold wherever something is installed."""
        return tuple(self.package.constraints) or fitting(torch_pin(), self.project.requirements)

    @property
    def left_out(self) -> list[str]:
        """Files that neither the repository knows nor these verbs write, fit to be shown."""
        own = (self.dist, self.records, self.settings.state_dir)
        paths = {one: self.project.folder / one for one in self.project.source.untracked}
        return [escaped(one) for one, path in paths.items() if not any(map(path.is_relative_to, own))]

    @contextmanager
    def alone(self, step: str) -> Iterator[Path]:
        """Its folder, for the one process of all that makes the step.

        Raises:
            RunInUseError: another one does.
        """
        # The same each time, so that a compiler cache knows its paths.
        work = self.settings.state_dir / "package" / step / self.project.canonical
        what = f"`{step}` is already running for this project"
        with alone(work / "lock", RunInUseError(what, where=work, remedy="wait until it ends")):
            yield work

    def note(
        self, step: str, *, passed: bool, details: Mapping[str, Any], dirty: Sequence[str] = ()
    ) -> Record:
        """Write the record of a step, of which more files may have been `dirty` than are now."""
        source = self.project.source
        record = Record(
            step=step,
            project=self.project.canonical,
            commit=source.commit,
            dirty=tuple(dict.fromkeys([*dirty, *source.dirty])),
            passed=passed,
            details=details,
        )
        write_record(self.records, record)
        return record

    def index(self, name: str) -> Index:
        """An index of the settings.

        Raises:
            UsageError: there is none of that name.
        """
        known = self.package.all_indexes
        if name not in known:
            remedy = f"known: {', '.join(known)}; add others to package.indexes"
            raise UsageError(f"there is no index {name!r}", where="--index", remedy=remedy)
        return known[name]


def echo(line: str) -> None:
    """A line for people, beside what machines read."""
    typer.echo(line, err=True)


def context_of(
    ctx: typer.Context,
    folder: Path,
    *,
    dist: Path | None = None,
    records: Path | None = None,
    any_checkout: bool = False,
) -> Context:
    """The context of a verb.

    The project's own spyre-ci.yaml holds, not the one of the folder the command was called in; `--config`
    before both.

    Args:
        ctx: of the command.
        folder: the project's.
        dist: folder of sdist and wheel; None: as the settings say.
        records: folder of what is noted; None: as the settings say.
        any_checkout: whether it need be no Python project.

    Raises:
        SpyreCiError: the settings or the project cannot be read.
    """
    named = ctx.find_root().params.get("config_file")
    settings = (
        settings_from_context(ctx)
        if named
        else load_settings(path=None, environ=os.environ, flags={}, cwd=folder)
    )
    package = settings.model.package
    project = read_project(
        folder, tag_prefix=package.tag_prefix, settings=settings.path, any_checkout=any_checkout
    )
    return Context(
        project=project,
        settings=settings,
        dist=(dist or project.folder / package.dist).resolve(),
        records=(records or project.folder / package.records).resolve(),
    )
