"""A project's tests that need a card, as a tree the runner takes: a folder `test/`, rules of what runs."""

from __future__ import annotations

import glob
import os
import shutil
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import yaml

from ci.config.package_model import PackageTests
from ci.core.errors import MissingInputError, UsageError
from ci.package.export import export
from ci.package.project import Project
from ci.runner.source import PROJECT_FILE

_FOLDERS = ("tests", "test")
_RULES = "rules.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which of a project's tests need a card.

    Attributes:
        base: the folder of the project that becomes `test/`; empty: all of it.
        files: globs of test files in it; none: all.
        marker: the marker that tests carry; empty: all that are chosen.
    """

    base: str
    files: tuple[str, ...] = ()
    marker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A project as the runner takes it.

    Attributes:
        tree: holds `test/`.
        rules: the scope's file: what of it runs.
        files: globs of test files.
    """

    tree: Path
    rules: Path
    files: tuple[str, ...]


def choose(tests: PackageTests, sources: Path) -> Choice:
    """Which tests of a project need a card: those of the settings, else tests/device, else by marker.

    Args:
        tests: the settings.
        sources: the project's files.

    Raises:
        MissingInputError: what the settings name is not found.
        UsageError: there are no tests.
    """
    usual = ["tests/device"] if (sources / "tests/device").is_dir() else []
    named = [os.path.normpath(one) for one in tests.device] or usual
    for one in named:
        if one.startswith(("..", "/")) or not (sources / one).exists():
            raise MissingInputError(
                f"the project has no {one!r}",
                where="package.tests.device",
                remedy="name folders and files of the project",
            )
    # tests or test where all are below, so that what they share is there.
    if named:
        holds = (folder for folder in _FOLDERS if all(Path(one).is_relative_to(folder) for one in named))
        base = next(holds, "")
        return Choice(base=base, files=tuple(_glob(sources, one, base) for one in named))
    folder = next((name for name in _FOLDERS if (sources / name).is_dir()), None)
    if folder is None:
        raise UsageError(
            "the project has no folder tests or test",
            where="package.tests.device",
            remedy="set it to the tests that need a card",
        )
    return Choice(base=folder, marker=tests.device_marker)


def _glob(sources: Path, named: str, base: str) -> str:
    below = os.path.relpath(named, base or ".")
    if (sources / named).is_file():
        return glob.escape(below)
    return "*" if below == "." else f"{glob.escape(below)}/*"


def view_of(project: Project, tests: PackageTests, work: Path) -> View:
    """Make the view, in place of an earlier one.

    Args:
        project: the checkout.
        tests: the settings.
        work: a folder for it.

    Raises:
        SpyreCiError: of `choose` and `export`.
    """
    sources, tree = work / "sources", work / "tree"
    for folder in (sources, tree):
        shutil.rmtree(folder, ignore_errors=True)
    export(project, sources)
    choice = choose(tests, sources)
    tree.mkdir()
    shutil.rmtree(sources / ".git")
    (sources / choice.base).rename(tree / "test")
    shutil.rmtree(sources, ignore_errors=True)
    (tree / PROJECT_FILE).write_text(f"{project.canonical}\n", encoding="utf-8")
    rules = work / _RULES
    rules.write_text(rules_text(choice.marker), encoding="utf-8")
    return View(tree=tree, rules=rules, files=choice.files)


def rules_text(marker: str) -> str:
    """The scope's rules: every test, or those with a marker."""
    if not marker:
        rules = [{"code": "project", "text": "a test of the project", "verdict": "in"}]
    else:
        text = "carries the marker of tests that need a card"
        rules = [
            {"code": "device-marker", "text": text, "verdict": "in", "marker": marker},
            {"code": "no-device", "text": "needs no card", "verdict": "out"},
        ]
    return yaml.safe_dump({"rules": rules}, sort_keys=False)


def installed_version(project: Project) -> str:
    """The version of the project where the runner's workers import it.

    Raises:
        UsageError: it is not installed there.
    """
    try:
        return version(project.canonical)
    except PackageNotFoundError as error:
        raise UsageError(
            f"{project.name} is not installed in the environment of spyre-ci, which runs the tests",
            where=project.folder,
            remedy="install it there: pip install dist/*.whl",
        ) from error
