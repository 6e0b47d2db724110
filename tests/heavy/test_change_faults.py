from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

from ci.core.commands import finish_command
from test_selection.op_map import make_op_map, write_op_map
from test_selection.recall import read_recall
from tests.json_documents import differences
from tests.repositories import TWO_KERNELS, commit

ROOT = Path(__file__).parents[2]


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


TESTS = """\
import unittest
from kern.ops import add, mul
class TestOps(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 3), 5)
    def test_mul(self):
        self.assertEqual(mul(2, 3), 6)
"""


def test_the_verb_measures_a_back_end_by_runs_of_its_own(tmp_path: Path) -> None:
    test, project = tmp_path / "pytorch" / "test", tmp_path / "project"
    test.mkdir(parents=True)
    (test / "test_ops.py").write_text(TESTS)
    (tmp_path / "pytorch" / "version.txt").write_text("2.13.0\n")
    kernels = f"def impl(name):\n    return lambda kernel: kernel\n{TWO_KERNELS}"
    commit(project, {".gitignore": "/runs/\n.spyre-ci/\n", "kern/__init__.py": "", "kern/ops.py": kernels})
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}:{project}", "SPYRE_CI__REPORT__ENDPOINT": "none"}
    environ["SPYRE_CI__RUN__LEASES"] = str(tmp_path / "leases")

    def call(*words: str) -> str:
        ended = finish_command(
            [sys.executable, "-m", "ci.cli", *words], timeout_s=300, env=environ, cwd=project
        )
        assert ended.code == 0, ended.stdout + ended.stderr
        return ended.stdout.decode()

    call("pytorch", "--pytorch-src", "../pytorch", "--device", "cpu", "--percent", "100")
    (run,) = (project / "runs").iterdir()
    traces = {
        f"test_ops.py::TestOps::test_{name}": [f"aten::{name}.Tensor float32"] for name in ("add", "mul")
    }
    write_op_map(run / "opmap.json.gz", make_op_map(traces, pytorch="2.13.0", device="cpu"))
    environ["PYTHONPATH"] = str(ROOT)
    measured = call(
        "changes", "measure", "latest", "--sources", "kern", "--mutants", "5", "--seed", "1", "--json"
    )

    told = json.loads(measured)
    assert differences("changes measure", told) == []
    assert (told["faults"], told["found"]) == (5, 5)
    evidence = read_recall(project / "recall.json")["evidence"]
    assert (evidence.faults, evidence.caught, evidence.median_share) == (5, 5, 0.5)
    assert [one.name for one in (project / "runs").iterdir()] == [run.name]
