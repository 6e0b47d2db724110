"""Python, spyre-ci's own requirements, and nox."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ci.doctor.finding import Level
from ci.doctor.judge.basics import NoxFacts, PythonFacts, judge_nox, judge_python

PYTHON = PythonFacts(
    version=(3, 12, 1),
    executable="/opt/my env/bin/python",
    prefix="/opt/my env",
    own=True,
    machine="x86_64",
    cores=2,
    settings="/c/spyre-ci.yaml",
)
NOX = NoxFacts(command=("/bin/nox",), version="2026.1.1", wanted=">=2025.5.1", folder="/c")


def test_a_python_that_will_do_says_where_it_is() -> None:
    (found,) = judge_python(PYTHON)
    assert found.level is Level.OK
    assert found.said == "3.12.1 in /opt/my env; x86_64, 2 cores; settings /c/spyre-ci.yaml"
    (found,) = judge_python(replace(PYTHON, own=False, settings="", cores=1))
    assert found.said.endswith(
        "the system's own, not a virtual environment; x86_64, 1 core; no settings file, so all defaults"
    )


def test_a_python_that_is_too_old_is_a_fault() -> None:
    (found,) = judge_python(replace(PYTHON, version=(3, 10, 14)))
    assert (found.level, found.remedy) == (Level.FAULT, "install Python 3.11 or newer")
    assert "3.10.14 is older than 3.11" in found.said


def test_a_requirement_that_is_not_met_is_a_fault_with_a_command_that_meets_it() -> None:
    (found,) = judge_python(replace(PYTHON, missing=("rich>=13.9 (12.0 is there)", "typer>=0.15")))
    assert found.level is Level.FAULT
    assert "2 requirements of spyre-ci not met: rich>=13.9 (12.0 is there), typer>=0.15" in found.said
    assert found.remedy == "'/opt/my env/bin/python' -m pip install 'rich>=13.9' 'typer>=0.15'"


@pytest.mark.parametrize(
    ("facts", "level", "words"),
    [
        (NOX, Level.OK, "2026.1.1 (/bin/nox)"),
        (replace(NOX, version="2026.10.20", wanted="not a specifier"), Level.OK, "2026.10.20"),
        (replace(NOX, command=(), torch=True), Level.WARNING, "`spyre-ci pytorch` runs without it"),
        (replace(NOX, command=()), Level.FAULT, "nox is not installed"),
        (replace(NOX, version="", why="took longer than 15 s"), Level.FAULT, "took longer than 15 s"),
        (replace(NOX, version=""), Level.FAULT, "it says no version"),
        (replace(NOX, version="2024.4.15"), Level.FAULT, "2024.4.15, and the noxfile wants >=2025.5.1"),
        (replace(NOX, noxfile=False), Level.WARNING, "there is no noxfile.py in /c"),
    ],
)
def test_nox_is_there_and_new_enough_or_it_is_said(facts: NoxFacts, level: Level, words: str) -> None:
    (found,) = judge_nox(facts)
    assert found.level is level
    assert words in found.said
    assert bool(found.remedy) == (level is not Level.OK)


def test_what_installs_another_nox_can_be_pasted() -> None:
    (found,) = judge_nox(replace(NOX, version="2024.4.15"))
    assert found.remedy == "pip install 'nox>=2025.5.1'"
