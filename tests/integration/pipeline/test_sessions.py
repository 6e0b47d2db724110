"""Sessions as a job calls them: by the toolkit's noxfile, from a project, in the environment as it is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import need
from tests.repositories import Repository

ROOT = Path(__file__).parents[3]


def nox(folder: Path, *words: str, **environ: str) -> tuple[int, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "JENKINS"))}
    ended = subprocess.run(
        [sys.executable, "-m", "nox", "-f", str(ROOT / "noxfile.py"), *words],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT), "NOX_DEFAULT_VENV_BACKEND": "none", **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    need(shutil.which("spyre-ci") is not None, "spyre-ci on the path")
    made = Repository(tmp_path / "project")
    made.commit({"spyre-ci.yaml": "stage: 2\n"})
    made.commit({"README.md": "# it\n"})
    return made.folder


def test_the_settings_and_files_of_the_project_count(project: Path, tmp_path: Path) -> None:
    words = ("-s", "pipeline", "--", "changes", "--base", "HEAD~1", "--out", "out.json")
    code, said = nox(project, *words, GITHUB_OUTPUT=str(tmp_path / "output"), SPYRE_CI__STAGE="")
    assert code == 0, said
    found = json.loads((project / "out.json").read_text())
    assert (found["stage"], found["unit"]) == (2, False)
    assert "unit=false" in (tmp_path / "output").read_text().splitlines()
    assert "[pip]" not in said  # nothing was installed


@pytest.mark.parametrize(("needs", "code"), [('{"lint": {"result": "failure"}}', 1), ("", 2)])
def test_a_job_ends_with_the_code_of_what_it_called(project: Path, needs: str, code: int) -> None:
    assert nox(project, "-s", "pipeline", "--", "gate", "--expect", "lint", NEEDS=needs)[0] == code
