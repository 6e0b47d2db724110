"""What was installed is whole: the command answers, and finds the files it brings."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path


def spyre_ci(*words: str) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).parent / "spyre-ci"
    return subprocess.run([command, *words], capture_output=True, text=True, timeout=120, check=False)


def test_the_command_says_its_version() -> None:
    assert spyre_ci("--version").stdout == f"spyre-ci {version('spyre-ci')}\n"


def test_settings_and_their_descriptions_are_there() -> None:
    said = spyre_ci("config", "show", "--describe")
    assert said.returncode == 0, said.stderr
    assert "stages.1.percent" in said.stdout


def test_the_rules_it_brings_are_there() -> None:
    import test_selection  # noqa: PLC0415  # of what was installed

    assert list(Path(test_selection.__file__).parent.rglob("*.yaml"))
