from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from ci.core.process import finish_command

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.gate


def test_faults_of_a_back_end_are_caught_by_the_tests_that_their_diffs_name(tmp_path: Path) -> None:
    """The whole way: a traced run, faults as diffs of a repository, full runs as the truth."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "SPYRE_CI__RUN__LEASES": str(tmp_path / "leases")}
    words = [sys.executable, "-m", "ci.cli", "pytorch", "--percent", "3", "--cards", "2"]
    ran = finish_command(words, timeout_s=300, env=environ, cwd=tmp_path)
    assert ran.code == 0, ran.stderr
    (run,) = (tmp_path / "runs").iterdir()

    bench = [sys.executable, str(ROOT / "tests/benchmarks/change_faults.py"), str(run), "--faults", "12"]
    measured = finish_command(
        [*bench, "--seed", "2", "--log", "log.jsonl"], timeout_s=300, env=environ, cwd=tmp_path
    )
    said = measured.stdout.decode()
    assert measured.code == 0, said + measured.stderr.decode()
    found = re.search(r"evidence: (\d+)/(\d+) changes .*, 100\.00 % of \d+ failing tests", said)
    assert found is not None, said
    assert found[1] == found[2]
    assert int(found[2]) >= 3, said
