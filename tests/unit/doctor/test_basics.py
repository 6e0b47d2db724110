"""What this environment has of what spyre-ci wants: Python, its own requirements, and nox."""

from __future__ import annotations

import importlib.metadata
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ci.core.errors import CommandError
from ci.doctor.basics import NoxFacts, PythonFacts, judge_nox, judge_python, look_nox, look_python, unmet
from ci.doctor.finding import Level
from ci.doctor.pytorch import look_torch, pin_of, torch_requirements

from .conftest import MakeWorld

THERE = {"rich": "13.9", "typer": "0.1"}
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


def version(name: str) -> str:
    try:
        return THERE[name]
    except KeyError:
        raise importlib.metadata.PackageNotFoundError(name) from None


def test_what_is_missing_and_what_is_too_old_are_told() -> None:
    required = [
        "rich>=13",
        "typer>=0.15",
        "gone",
        "torch==2; extra == 'torch'",
        "w; sys_platform == 'none'",
        "?!",
    ]
    assert unmet(required, version) == ["typer>=0.15 (0.1 is there)", "gone"]


def test_this_python_runs_it(make_world: MakeWorld) -> None:
    (found,) = look_python(make_world())
    assert found.level is Level.OK, found.said
    assert sys.prefix in found.said


def nox(folder: Path, text: str = "") -> dict[str, str]:
    (folder / "bin").mkdir()
    program = folder / "bin" / "nox"
    program.touch(mode=0o755)
    if text:
        (folder / "noxfile.py").write_text(text)
    return {"PATH": str(folder / "bin")}


@pytest.mark.parametrize(
    ("answer", "level", "words"),
    [
        ("2026.1.1\n", Level.OK, "2026.1.1"),
        ("2024.1.1\n", Level.FAULT, "the noxfile wants >=2025.5.1"),
        (1, Level.FAULT, "it ended with code 1"),
        ("who knows", Level.FAULT, "it ended with code 0"),
        (CommandError("took longer than 15 s: nox"), Level.FAULT, "took longer than 15 s"),
    ],
)
def test_nox_is_asked_for_its_version(
    make_world: MakeWorld, tmp_path: Path, answer: str | int | CommandError, level: Level, words: str
) -> None:
    environ = nox(tmp_path, 'import nox\nnox.needs_version = ">=2025.5.1"\n')
    (found,) = look_nox(make_world(environ, answer))
    assert found.level is level, found
    assert words in found.said


def test_a_folder_without_a_noxfile_is_told(make_world: MakeWorld, tmp_path: Path) -> None:
    (found,) = look_nox(make_world(nox(tmp_path), "2026.1.1"))
    assert (found.level, str(tmp_path) in found.said) == (Level.WARNING, True)


def test_the_nox_beside_this_python_can_install_torch_as_that_of_the_path_can(
    make_world: MakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    lacking = CommandError("No module named 'torch'")
    assert look_torch(make_world({}, lacking))[0].level is Level.FAULT
    (tmp_path / "nox").touch(mode=0o755)
    assert look_torch(make_world({}, lacking))[0].level is Level.WARNING
    assert look_nox(make_world({}, "2026.1.1"))[0].said.startswith("2026.1.1")


def test_the_pin_is_the_extras() -> None:
    required = torch_requirements()
    assert pin_of(required).count(".") == 2
    assert {"numpy", "expecttest"} <= {one.name for one in required}
    assert pin_of([]) == ""


@pytest.mark.parametrize(
    ("answer", "level", "words"),
    [
        ('{"version": "PIN", "file": "/t", "git": null}', Level.OK, "PIN, CPU, /t; the pin is PIN"),
        ('a warning of its own\n{"version": "PIN", "file": "/t"}', Level.OK, "the pin is PIN"),
        ('{"version": "1.0", "file": "/t"}', Level.FAULT, "1.0, CPU"),
        (CommandError("took longer than 26 s: python"), Level.WARNING, "did not end within 26 s"),
        (1, Level.FAULT, "cannot be imported: code 1"),
        ("", Level.FAULT, "ended with code 0 and said nothing"),
    ],
)
def test_torch_is_what_its_import_says(
    make_world: MakeWorld, answer: str | int | CommandError, level: Level, words: str
) -> None:
    pin = pin_of(torch_requirements())
    answer = answer.replace("PIN", pin) if isinstance(answer, str) else answer
    found = look_torch(make_world({}, answer))[0]
    assert found.level is level, found
    assert words.replace("PIN", pin) in found.said


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
