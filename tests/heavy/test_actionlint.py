"""The actionlint that scripts/node_tools installs: by the command line that `spyre-ci package lint` uses."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.heavy.act import ROOT, WORKFLOWS
from tests.heavy.payloads import node_modules
from tests.integration.conftest import need

ACTIONLINT = node_modules().parent / "bin" / "actionlint"
WRONG = """\
on: push
jobs:
  a:
    runs-on: ubuntu-latest
    steps:
      - run: echo "$SHA" "$NAME"
        env:
          SHA: ${{ job.workflow_sha }}
          NAME: ${{ github.nothing }}
"""


@pytest.fixture(autouse=True)
def _installed() -> None:
    need(ACTIONLINT.is_file() and shutil.which("node") is not None, f"{ACTIONLINT} (scripts/node_tools)")


def found(folder: Path, *files: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [ACTIONLINT, "-no-color", "-oneline", *files],
        cwd=folder,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout.splitlines()


def test_it_finds_nothing_in_the_workflows_of_this_repository() -> None:
    names = [f"./.github/workflows/{one.name}" for one in sorted(WORKFLOWS.iterdir())]
    assert found(ROOT, *names) == (0, [])


def test_it_leaves_out_what_the_configuration_names_and_nothing_else(tmp_path: Path) -> None:
    workflow = tmp_path / ".github" / "workflows" / "a.yml"
    workflow.parent.mkdir(parents=True)
    workflow.write_text(WRONG, encoding="utf-8")
    code, without = found(tmp_path, "./.github/workflows/a.yml")
    assert (code, [one.split(":")[1] for one in without]) == (1, ["8", "9"])
    shutil.copyfile(ROOT / ".github" / "actionlint.yaml", tmp_path / ".github" / "actionlint.yaml")
    code, rest = found(tmp_path, "./.github/workflows/a.yml")
    assert (code, [one.split(":")[1] for one in rest]) == (1, ["9"])
    assert rest[0].startswith(".github/workflows/a.yml:9:")
    assert 'property "nothing" is not defined' in rest[0]
