"""A pull request that breaks an operator, executed by act: its tests run first what the change can break."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from ci.core.commands import finish_command
from test_selection.op_map import read_op_map, write_op_map
from tests.heavy import demo_project
from tests.heavy.act import ROOT, Scratch, make_scratch
from tests.heavy.payloads import pull_request

PERCENT = 12
EXAMPLE = ROOT / "tests" / "example_backend"
# Gives the device of each process the kernels of the checkout, as the package of a back end does.
WITH_KERNELS = """\
import importlib.abc
import importlib.util
import os
import sys
from pathlib import Path


class WithKernels(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "ci.device.backend":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def load(module):
            run(module)
            register = module.register

            def with_kernels(**given):
                if module._in_use is None:
                    register(**given)
                    from tests.benchmarks.forked_runs import installing

                    installing(Path(os.environ["GITHUB_WORKSPACE"], "project"))()

            module.register = with_kernels

        spec.loader.exec_module = load
        return spec


sys.meta_path.insert(0, WithKernels())
"""


@pytest.fixture(scope="module")
def op_map(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the tests call, as a run of the day before traced it."""
    folder = tmp_path_factory.mktemp("traced")
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "SPYRE_CI__RUN__LEASES": str(folder / "leases")}
    words = [sys.executable, "-m", "ci.cli", "pytorch", "--percent", str(PERCENT), "--cards", "2"]
    ran = finish_command(words, timeout_s=300, env=environ, cwd=folder)
    assert ran.code == 0, ran.stderr
    (traced,) = folder.glob("runs/*/opmap.json.gz")
    write_op_map(folder / "opmap.json", read_op_map(traced))
    return (folder / "opmap.json").read_text(encoding="utf-8")


def first_failure(folder: Path, files: dict[str, str]) -> tuple[int, float]:
    """The place of the first failure among the tests that ended, and seconds to it from the jobs' start."""
    stages = {number: {"percent": PERCENT, "cards": 2, "cadence": "nightly"} for number in (1, 2, 3, 4, 5)}
    settings = demo_project.files(
        stages={0: {"percent": 0, "cards": 1, "cadence": "none"}, **stages},
        plan={"op_map": "opmap.json"},
        pytorch={"files": ["test_op_suite.py"]},
    )
    kernels = {
        f"example_backend/{path.name}": path.read_text(encoding="utf-8") for path in EXAMPLE.glob("*.py")
    }
    scratch = make_scratch(folder, settings | kernels | files)
    (scratch.folder / "installed" / "sitecustomize.py").write_text(WITH_KERNELS, encoding="utf-8")
    broken = kernels["example_backend/reductions.py"].replace(
        "return (powers / powers.sum(dim, True))", "return (powers * powers.sum(dim, True))"
    )
    payload = scratch.pull_request(
        {"example_backend/reductions.py": broken}, pull_request("labeled", "ciflow/spyre-stage-2")
    )
    payload["label"] = {"name": "ciflow/spyre-stage-2"}
    ended = scratch.run("pull_request", payload, "ciflow.yml")
    summary = json.loads((scratch.artifacts / "results" / "summary.json").read_text(encoding="utf-8"))
    assert summary["verdicts"]["failed"] > 0, ended.told
    return in_journals(scratch)


def in_journals(scratch: Scratch) -> tuple[int, float]:
    """By the times at which CI jobs began and tests ended."""
    lines = [
        json.loads(line)
        for path in scratch.artifacts.glob("journal*/journal/*.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    began = min(float(one["t"]) for one in lines if one["e"] == "shard_start")
    ends = sorted((one for one in lines if one["e"] == "end"), key=lambda one: float(one["t"]))
    failed = ((place, one) for place, one in enumerate(ends, 1) if one["outcome"] == "failed")
    place, first = next(failed)
    return place, round(float(first["t"]) - began, 1)


@pytest.mark.nightly
def test_a_broken_operator_shows_at_once(tmp_path: Path, op_map: str) -> None:
    ordered = first_failure(tmp_path / "with", {"opmap.json": op_map})
    plain = first_failure(tmp_path / "without", {})
    sys.stdout.write(f"place and seconds of the first failure: {ordered} by the change, {plain} without\n")
    assert ordered[0] <= 20
    assert ordered[0] < plain[0]
