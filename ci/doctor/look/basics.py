"""Facts of Python, of spyre-ci's own requirements and of nox."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from ci.core.errors import CommandError
from ci.doctor.finding import Finding
from ci.doctor.judge.basics import NoxFacts, PythonFacts, judge_nox, judge_python
from ci.doctor.world import World

NAME = "spyre-ci"
NOX_LIMIT_S = 15.0
_WANTED = re.compile(r"^nox\.needs_version *= *[\"']([^\"']{1,100})[\"']", re.MULTILINE)
_NUMBER = re.compile(r"^\d+(?:\.\w+)+$", re.MULTILINE)


def look_python(world: World) -> list[Finding]:
    """The Python that runs this, and what spyre-ci wants of its environment."""
    return judge_python(
        PythonFacts(
            version=(sys.version_info.major, sys.version_info.minor, sys.version_info.micro),
            executable=sys.executable,
            prefix=sys.prefix,
            own=sys.prefix != sys.base_prefix,
            machine=platform.machine(),
            cores=world.cores,
            missing=unmet(_required(), importlib.metadata.version),
            settings="" if world.settings.path is None else str(world.settings.path),
        )
    )


def unmet(required: Iterable[str], version: Callable[[str], str]) -> list[str]:
    """The requirements that are not met, such as `rich>=13.9 (12.0 is there)`; extras are nobody's lack.

    Args:
        required: as a package's metadata has them.
        version: of an installed package; raises PackageNotFoundError.
    """
    found = []
    for text in required:
        try:
            one = Requirement(text)
        except InvalidRequirement:
            continue
        if one.marker is not None and not one.marker.evaluate({"extra": ""}):
            continue
        needs = f"{one.name}{one.specifier}"
        try:
            there = version(one.name)
        except importlib.metadata.PackageNotFoundError:
            found.append(needs)
            continue
        if not one.specifier.contains(there, prereleases=True):
            found.append(f"{needs} ({there} is there)")
    return found


def look_nox(world: World) -> list[Finding]:
    """Whether the nox that would be called can be."""
    text = _text(world.cwd / "noxfile.py")
    command = nox_command(world)
    version, why = _version(world, command) if command else ("", "")
    wanted = _WANTED.search(text or "")
    return judge_nox(
        NoxFacts(
            command=command,
            version=version,
            why=why,
            wanted=wanted[1] if wanted else "",
            noxfile=text is not None,
            folder=str(world.cwd),
            torch=_is_installed("torch"),
        )
    )


def nox_command(world: World) -> list[str]:
    """The nox of the path, else the one beside this Python; nothing where there is neither."""
    if found := shutil.which("nox", path=world.environ.get("PATH", "")):
        return [found]
    beside = Path(sys.executable).with_name("nox")
    return [str(beside)] if os.access(beside, os.X_OK) else []


def _required() -> list[str]:
    try:
        return importlib.metadata.requires(NAME) or []
    except importlib.metadata.PackageNotFoundError:
        # Used as a checkout lies there: whoever sets the path answers for what is in it.
        return []


def _is_installed(name: str) -> bool:
    """By what installers note: a file of that name in this folder is no package."""
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _version(world: World, command: list[str]) -> tuple[str, str]:
    try:
        ended = world.processes.finish([*command, "--version"], env=world.environ, limit_s=NOX_LIMIT_S)
    except CommandError as error:
        return "", error.what
    said = (ended.stdout + b"\n" + ended.stderr).decode("utf-8", "replace")
    number = _NUMBER.search(said) if ended.code == 0 else None
    return (number[0], "") if number else ("", f"it ended with code {ended.code}")


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
