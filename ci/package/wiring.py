"""What the verbs of `spyre-ci package` work with, as settings and flags have it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer
from packaging.utils import canonicalize_name
from packaging.version import Version

from ci.config import Settings, load_settings
from ci.config.context import settings_from_context
from ci.config.package_model import Index, Package
from ci.core.errors import BadFileError, MissingInputError, UsageError
from ci.core.text import escaped
from ci.package.environment import fitting, torch_pin
from ci.package.project import PYPROJECT, Project, read_project, read_pyproject
from ci.package.records import Record, write_record
from ci.package.source import with_settings
from ci.package.versions import version_to_build


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
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

    def is_ours(self, name: str) -> bool:
        """Whether a file, by its path in the project, is one that these verbs write."""
        path = self.project.folder / name
        return any(path.is_relative_to(one) for one in (self.dist, self.records, self.settings.state_dir))

    @property
    def left_out(self) -> list[str]:
        """Files that neither the repository knows nor these verbs write, fit to be shown."""
        return [escaped(one) for one in self.project.source.untracked if not self.is_ours(one)]

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

    @property
    def work(self) -> Path:
        """The folder builds are made in; the same each time, so that a compiler cache knows its paths."""
        return self.settings.state_dir / "package" / "work" / self.project.canonical


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """A folder of sources, whether or not it can be built.

    Attributes:
        folder: of it.
        name: as indexes spell it, or the folder's where pyproject.toml has none.
        settings: its own, or those that were named.
    """

    folder: Path
    name: str
    settings: Settings


def echo(line: str) -> None:
    """A line for people, beside what machines read."""
    typer.echo(line, err=True)


def bench_of(
    ctx: typer.Context, folder: Path, *, dist: Path | None = None, records: Path | None = None
) -> Bench:
    """The project of a verb.

    Its own spyre-ci.yaml holds, not the one of the folder the command was called in; `--config` before both.

    Args:
        ctx: of the command.
        folder: the project's.
        dist: folder of sdist and wheel; None: as the settings say.
        records: folder of what is noted; None: as the settings say.

    Raises:
        SpyreCiError: the settings or the project cannot be read.
    """
    settings = settings_of(ctx, folder)
    package = settings.model.package
    project = read_project(folder, tag_prefix=package.tag_prefix)
    source = with_settings(project.folder, project.source, settings.path)
    return Bench(
        project=replace(project, source=source),
        settings=settings,
        dist=(dist or project.folder / package.dist).resolve(),
        records=(records or project.folder / package.records).resolve(),
    )


def index_of(package: Package, name: str, *, where: str = "--index") -> Index:
    """An index of the settings, by name; `where` it was named.

    Raises:
        UsageError: there is none of that name.
    """
    known = package.all_indexes
    if name not in known:
        raise UsageError(
            f"there is no index {name!r}",
            where=where,
            remedy=f"known: {', '.join(known)}; others belong to package.indexes",
        )
    return known[name]


def checkout_of(ctx: typer.Context, folder: Path) -> Checkout:
    """A folder of sources that may be no project that can be built.

    Raises:
        MissingInputError: there is no such folder.
        SpyreCiError: its settings cannot be read.
    """
    if not folder.is_dir():
        raise MissingInputError("there is no such folder", where=folder, remedy="name a checkout")
    try:
        name: str = canonicalize_name(read_pyproject(folder / PYPROJECT)["project"]["name"])
    except (BadFileError, FileNotFoundError):
        name = folder.resolve().name
    return Checkout(folder=folder.resolve(), name=name, settings=settings_of(ctx, folder))


def settings_of(ctx: typer.Context, folder: Path) -> Settings:
    """The settings that `--config` names, else those of the project.

    Raises:
        SpyreCiError: they cannot be read.
    """
    given = settings_from_context(ctx)
    named = ctx.find_root().params.get("config_file")
    return given if named else load_settings(path=None, environ=os.environ, flags={}, cwd=folder)


def version_of(bench: Bench, *, local: bool) -> Version | None:
    """The version that a build of the checkout is given; None: the one that the back end says.

    Raises:
        BadFileError: what the project says is no version, or not the one of its tag.
        UsageError: it cannot be told.
    """
    project, package = bench.project, bench.package
    if package.version == "declared":
        return None
    return version_to_build(project.declared_version, project.source, prefix=package.tag_prefix, local=local)
