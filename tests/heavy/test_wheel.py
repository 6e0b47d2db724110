"""The wheel holds what the checkout holds: pages, rules and the op suite too."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.gate
def test_every_tracked_file_of_the_packages_is_in_the_wheel(tmp_path: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "ci", "test_selection"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), str(ROOT)],
        check=True,
        timeout=300,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        held = set(packed.namelist())
    assert set(listed.stdout.split()) - held == set()
    assert not [name for name in held if name.startswith("tests")]
