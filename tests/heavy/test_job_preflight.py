"""The preflight of a host's cards, each in a process of its own: what passes, what fails, what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.nightly


def checked(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ci.cli", "job", "preflight", *words],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT), **environ}, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip


def test_an_emulated_card_passes_and_says_what_it_is(tmp_path: Path) -> None:
    ran = checked(tmp_path, "--timeout", "120")
    assert ran.returncode == 0, ran.stderr
    (line,) = ran.stdout.splitlines()
    told = json.loads(line)
    assert (told["card"], told["ok"], told["emulated"]) == ("emulated:0", True, True)


def test_a_sick_card_fails_in_its_own_words(tmp_path: Path) -> None:
    ran = checked(tmp_path, "--timeout", "120", SPYRE_CI_CARD_FAULTS="emulated:0=fail:1")
    assert ran.returncode == 3
    told = json.loads(ran.stdout)
    assert told["ok"] is False
    assert "RAS::" in told["ras"]


def test_cards_that_would_be_checked_by_the_emulated_device_are_said_to_be(tmp_path: Path) -> None:
    ran = checked(tmp_path, "--timeout", "120", PCIDEVICE_IBM_COM_SPYRE_PF="0000:1a:00.0,0000:1b:00.0")
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [(one["card"], one["emulated"]) for one in told] == [
        ("0000:1a:00.0", True),
        ("0000:1b:00.0", True),
    ]


@pytest.mark.parametrize("seconds", ["0", "4000"])
def test_a_time_there_cannot_be_is_refused(seconds: str, tmp_path: Path) -> None:
    ran = checked(tmp_path, "--timeout", seconds)
    assert ran.returncode == 2
    assert "'--timeout'" in ran.stderr
