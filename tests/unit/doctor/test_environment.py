"""What this environment has: Python, requirements, nox, torch against its pin, and pip's indexes."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys
from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import CommandError
from ci.doctor import environment
from ci.doctor.environment import check_index, check_nox, check_python, check_torch, unmet
from ci.runner.compatibility import torch_pin

from .conftest import LATE, Answer, MakeMachine, short

PIN = torch_pin()
NOXFILE = 'import nox\nnox.needs_version = ">=2025.5.1"\n\n\n@nox.session\ndef pytorch(session):\n    ...\n'
INSTALLED = {"rich": "13.9", "typer": "0.1"}


def version(name: str) -> str:
    try:
        return INSTALLED[name]
    except KeyError:
        raise importlib.metadata.PackageNotFoundError(name) from None


def test_requirements_that_are_missing_or_too_old_are_named() -> None:
    required = ["rich>=13", "typer>=0.15", "gone", "torch==2; extra == 'torch'", "w; sys_platform == 'none'"]
    assert unmet(required, version) == ["typer>=0.15 (0.1 is installed)", "gone"]


def test_python_says_where_it_is_and_what_is_missing(
    make_machine: MakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", "/opt/my env")
    monkeypatch.setattr(sys, "executable", "/opt/my env/bin/python")
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: [])
    ((level, message),) = short([*check_python(make_machine(cores=1))])
    assert (level, message.endswith(", 1 core; no settings file: all defaults")) == ("ok", True)
    assert " in /opt/my env; " in message
    monkeypatch.setattr(sys, "base_prefix", "/opt/my env")
    (found,) = check_python(make_machine())
    assert " in /opt/my env, not a virtual environment; " in found.message
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: ["rich>=99", "gone-for-good>=1"])
    (found,) = check_python(make_machine())
    assert "2 requirements of spyre-ci not met: rich>=99 (" in found.message
    assert found.remedy == "'/opt/my env/bin/python' -m pip install 'rich>=99' 'gone-for-good>=1'"
    monkeypatch.setattr(platform, "python_version", lambda: "3.10.14+")
    (found,) = check_python(make_machine())
    assert short([found]) == [("fault", "3.10.14+; spyre-ci needs 3.11 or newer")]


@pytest.mark.parametrize(
    ("noxfile", "installed", "torch", "answer", "level", "words"),
    [
        (None, False, True, "", "ok", "not needed: no noxfile.py in "),
        (NOXFILE, True, True, "2026.1.1\n", "ok", "2026.1.1 ("),
        ("import nox\n", True, True, "2020.1.1\n", "ok", "2020.1.1 ("),
        (NOXFILE, True, True, "2024.1.1\n", "fault", "2024.1.1, but noxfile.py needs >=2025.5.1"),
        (NOXFILE, True, True, "who knows", "fault", "cannot be used: it prints no version"),
        (NOXFILE, True, True, 1, "fault", "cannot be used: code 1 of "),
        (NOXFILE, True, True, LATE, "fault", "cannot be used: no answer within 15 s"),
        (NOXFILE, False, False, "", "fault", "not installed"),
        (NOXFILE, False, True, "", "warning", "not installed; `spyre-ci pytorch` runs without it"),
    ],
)
def test_nox_is_needed_where_there_is_a_noxfile(  # noqa: PLR0917  # a row of the table
    make_machine: MakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    noxfile: str | None, installed: bool, torch: bool, answer: Answer, level: str, words: str,
) -> None:  # fmt: skip
    if noxfile is not None:
        (tmp_path / "noxfile.py").write_text(noxfile)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: torch or None)
    if installed:
        (tmp_path / "nox").touch(mode=0o755)
    (found,) = check_nox(make_machine({}, answer))
    assert (str(found.level), words in found.message) == (level, True), found
    if "2024" in words:
        assert found.remedy == "pip install 'nox>=2025.5.1'"


def torch(version: str = f"{PIN}+cpu") -> dict[str, Any]:
    return {"version": version, "build": "CPU", "file": "/t"}


NO_TORCH = CommandError("ModuleNotFoundError: No module named 'torch'")


@pytest.mark.parametrize(
    ("answer", "noxfile", "variant", "level", "words"),
    [
        (torch(), "", "pinned", "ok", f"{PIN}+cpu, CPU, /t; the pin is {PIN}"),
        (torch(f"{PIN}a0+git1"), "", "pinned", "ok", "the pin is"),
        (torch("1.0"), "", "pinned", "fault", f"1.0, CPU, /t; the pin is {PIN}"),
        (torch("2.99.0.dev1"), "", "main", "warning", "image.variant is main"),
        (LATE, "", "pinned", "warning", "import torch did not end within 26 s"),
        (NO_TORCH, "", "pinned", "fault", "not installed in this environment"),
        (NO_TORCH, "import nox\n", "pinned", "fault", "not installed in this environment"),
        (
            NO_TORCH,
            NOXFILE,
            "pinned",
            "warning",
            f"environment; `nox -s pytorch` installs {PIN} into its own",
        ),
        (1, "", "pinned", "fault", "cannot be imported: code 1"),
        ("", "", "pinned", "fault", "exited with code 0 without output"),
        ("[1]", "", "pinned", "fault", "exited with code 0 without output"),
    ],
)
def test_torch_is_the_one_that_is_pinned_or_it_is_said(  # noqa: PLR0917  # a row of the table
    make_machine: MakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    answer: Answer, noxfile: str, variant: str, level: str, words: str,
) -> None:  # fmt: skip
    if noxfile:
        (tmp_path / "noxfile.py").write_text(noxfile)
    monkeypatch.setattr(environment, "_nox", lambda _: "/bin/nox")
    found = next(iter(check_torch(make_machine({}, answer, image__variant=variant))))
    assert (str(found.level), words in found.message) == (level, True), found
    if level == "fault":
        assert found.remedy.startswith(f"{sys.executable} -m pip install torch=={PIN}")


def test_what_tests_need_besides_and_what_excludes_the_pin_are_told(
    make_machine: MakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["torch~=1.0"]\n')
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "expecttest" else True)
    _, lacking, excluded = check_torch(make_machine({}, torch()))
    assert (str(lacking.level), lacking.remedy) == ("fault", f"{sys.executable} -m pip install expecttest")
    assert short([excluded])[0][0] == "warning"
    assert excluded.message.startswith(f"pyproject.toml:2 requires torch~=1.0, which excludes torch {PIN}")


@pytest.mark.parametrize(
    ("answer", "environ", "level", "start"),
    [
        (f"Available versions: 3.0, {PIN}+cpu\n", {}, "ok", f"torch {PIN} is available from pip's indexes"),
        ("ERROR: x\n", {"SPYRE_CI_ENVIRONMENT": "image"}, "warning", "pip finds no torch: x"),
        (
            "ERROR: no section\n'index-url=https://me:hunter2@i\n",
            {},
            "fault",
            "pip finds no torch: no section",
        ),
        ("/e/python: No module named pip\n", {}, "ok", "not checked: there is no pip"),
        (LATE, {}, "fault", "pip finds no torch: no answer within 20 s"),
        ("", {}, "fault", "pip finds no torch: it says nothing"),
    ],
)
def test_what_pip_says_is_told_without_what_it_quotes(  # a row of the table
    make_machine: MakeMachine, answer: Answer, environ: dict[str, str], level: str, start: str
) -> None:
    (found,) = check_index(make_machine(environ, answer))
    assert (str(found.level), found.message[: len(start)]) == (level, start)
    assert "hunter2" not in found.message
