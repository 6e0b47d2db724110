"""Python, what spyre-ci itself needs of its environment, and nox."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from ci.core.text import counted, shell_line
from ci.doctor.finding import Finding, fault, ok, warning

OLDEST = (3, 11)
PYTHON, NOX = "python", "nox"


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
