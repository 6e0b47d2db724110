"""Check Python, what spyre-ci itself needs of its environment, and nox."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from ci.core.errors import CommandError
from ci.core.text import counted, shell_line
from ci.doctor.finding import Finding, fault, ok, warning
from ci.doctor.world import World

OLDEST = (3, 11)
PYTHON, NOX = "python", "nox"
NAME = "spyre-ci"
NOX_LIMIT_S = 15.0
_WANTED = re.compile(r"^nox\.needs_version *= *[\"']([^\"']{1,100})[\"']", re.MULTILINE)
_NUMBER = re.compile(r"^\d+(?:\.\w+)+$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonFacts:
    """The Python that runs this.

    Attributes:
        version: its numbers, the first three.
        executable: the program.
        prefix: folder of its environment.
        own: whether that is a virtual environment, and not the system's.
        machine: such as x86_64.
        cores: that may be used.
        missing: requirements of spyre-ci that this environment does not meet, each with what is there.
        settings: the settings file; empty where there is none.
    """

    version: tuple[int, int, int]
    executable: str
    prefix: str
    own: bool
    machine: str
    cores: int
    missing: Sequence[str] = ()
    settings: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoxFacts:
    """The nox that would be called.

    Attributes:
        command: what calls it; empty where there is none.
        version: that it says; empty where it says none.
        why: it says none.
        wanted: what the noxfile here asks for, such as `>=2025.5.1`; empty: nothing.
        noxfile: whether there is one in this folder.
        folder: this folder.
        torch: whether torch is in this environment, so that a run can do without nox.
    """

    command: Sequence[str] = ()
    version: str = ""
    why: str = ""
    wanted: str = ""
    noxfile: bool = True
    folder: str = ""
    torch: bool = False


def judge_python(facts: PythonFacts) -> list[Finding]:
    """Whether this Python can run spyre-ci, and with it a run."""
    version = ".".join(map(str, facts.version))
    if facts.version[:2] < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return [
            fault(
                PYTHON,
                f"{version} is older than {oldest}: {facts.executable}",
                f"install Python {oldest} or newer",
            )
        ]
    if facts.missing:
        several = ", ".join(facts.missing)
        needs = [one.partition(" (")[0] for one in facts.missing]
        return [
            fault(
                PYTHON,
                f"{version}, and {counted(len(facts.missing), 'requirement')} of spyre-ci not met: {several}",
                shell_line([facts.executable, "-m", "pip", "install", *needs]),
            )
        ]
    where = "" if facts.own else ", the system's own, not a virtual environment"
    file = f"settings {facts.settings}" if facts.settings else "no settings file, so all defaults"
    cores = counted(facts.cores, "core")
    return [ok(PYTHON, f"{version} in {facts.prefix}{where}; {facts.machine}, {cores}; {file}")]


def judge_nox(facts: NoxFacts) -> list[Finding]:
    """Whether `nox -s pytorch` can be called here."""
    install = "pip install nox"
    if not facts.command:
        said = "nox is not installed"
        if facts.torch:
            return [warning(NOX, f"{said}; `spyre-ci pytorch` runs without it, in this environment", install)]
        return [fault(NOX, said, install)]
    words = shell_line(facts.command)
    if not facts.version:
        return [
            fault(
                NOX,
                f"{words} cannot be used: {facts.why or 'it says no version'}",
                f"{install} --force-reinstall",
            )
        ]
    if facts.wanted and not _meets(facts.version, facts.wanted):
        return [
            fault(
                NOX,
                f"{facts.version}, and the noxfile wants {facts.wanted}",
                f"pip install {shell_line(['nox' + facts.wanted])}",
            )
        ]
    if not facts.noxfile:
        return [
            warning(
                NOX,
                f"{facts.version}; there is no noxfile.py in {facts.folder}",
                "call nox in a checkout that has one; `spyre-ci init` sets one up",
            )
        ]
    return [ok(NOX, f"{facts.version} ({words})")]


def _meets(version: str, wanted: str) -> bool:
    """Whether a version is what is wanted; what cannot be read is."""
    try:
        return SpecifierSet(wanted).contains(Version(version), prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return True


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
