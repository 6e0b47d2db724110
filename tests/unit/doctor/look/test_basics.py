"""What this environment has of what spyre-ci wants."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest

from ci.core.errors import CommandError
from ci.doctor.finding import Level
from ci.doctor.look.basics import look_nox, look_python, unmet
from ci.doctor.look.pytorch import look_torch, pin_of, torch_requirements

from .conftest import MakeWorld

THERE = {"rich": "13.9", "typer": "0.1"}


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
