"""A machine with nothing but `pip install spyre-ci`: an environment of its own, made of links."""

from __future__ import annotations

import importlib.metadata
import sys
import tomllib
import venv
from collections.abc import Collection
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]


def bare(folder: Path, *, without: Collection[str] = ()) -> str:
    """The interpreter of an environment with spyre-ci, what it requires, and neither pip nor any extra.

    Args:
        folder: that it is made in.
        without: requirements that are left out, as after an accident.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name in _closure(project["dependencies"]):
        if name not in without:
            _link(name, packages)
    for name in ("ci", "test_selection"):
        (packages / name).symlink_to(ROOT / name)
    info = packages / f"spyre_ci-{project['version']}.dist-info"
    info.mkdir()
    requires = [f"Requires-Dist: {one}" for one in project["dependencies"]]
    torch = [f"Requires-Dist: {one} ; extra == 'torch'" for one in project["optional-dependencies"]["torch"]]
    head = ["Metadata-Version: 2.1", "Name: spyre-ci", f"Version: {project['version']}"]
    (info / "METADATA").write_text("\n".join([*head, *requires, *torch]) + "\n")
    return str(folder / "bin" / "python")


def _closure(requirements: Collection[str]) -> set[str]:
    found: set[str] = set()
    left = [(Requirement(one), "") for one in requirements]
    while left:
        one, extra = left.pop()
        if one.marker is not None and not one.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(one.name)
        more = [Requirement(text) for text in importlib.metadata.requires(name) or []]
        left += [(inner, wanted) for wanted in one.extras for inner in more]
        if name not in found:
            found.add(name)
            left += [(inner, "") for inner in more]
    return found


def _link(name: str, packages: Path) -> None:
    """Put what a distribution installed into another environment, by its top-level names."""
    files = importlib.metadata.distribution(name).files or []
    for top in {file.parts[0] for file in files if file.parts[0] not in {"..", "__pycache__"}}:
        there = Path(str(importlib.metadata.distribution(name).locate_file(top)))
        if not (packages / top).exists():
            (packages / top).symlink_to(there)
