"""A clean clone of what is committed, and an environment that has nothing of this one."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
TIMEOUT_S = 1200


def clean_environment() -> dict[str, str]:
    """This process's environment without the traces of the virtual environment it runs in."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("VIRTUAL_ENV", "NOX", "PYTHON", "GITHUB_", "SPYRE_CI"))
    }
    venv = os.environ.get("VIRTUAL_ENV", "")
    path = [one for one in kept["PATH"].split(os.pathsep) if not venv or not one.startswith(venv)]
    return {**kept, "PATH": os.pathsep.join(path)}


def make_clone(folder: Path) -> None:
    """Clone what is committed and run README's first command there.

    Its output is in `first.out` of the folder, its exit code in `first.code`.
    """
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True, timeout=120)
    first = BLOCKS[0].strip()
    assert "nox -s pytorch" in first
    done = subprocess.run(
        ["bash", "-euc", first],
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    (folder / "first.out").write_text(done.stdout + done.stderr, encoding="utf-8")
    (folder / "first.code").write_text(str(done.returncode), encoding="utf-8")
