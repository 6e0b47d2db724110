"""The op suite itself: a sample of it passes, on the device and on the CPU, and its suite file is true."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.core.commands import run_command
from ci.device.environment import OP_SUITE, device_environment

ROOT = Path(__file__).parents[3]
# Some of each kind: views, in-place, random, matrix products, convolutions, reductions, decompositions,
# uninitialised memory.
SAMPLE = (
    "test_op_add_ or test_op_as_strided_ or test_op_bernoulli_ or test_op_conj_ or test_op_empty_ "
    "or test_op_linalg_svd_ or test_op_matmul_ or test_op_nn_functional_conv2d_ "
    "or test_op_nn_functional_dropout_ or test_op_sort_ or test_op_take_along_dim_ or test_op_var_mean_"
)

RUN = """
import json, os, sys, pytest
class Seen:
    def __init__(self): self.outcomes = {}
    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.skipped:
            self.outcomes[report.nodeid.rpartition("::")[2]] = report.outcome
seen = Seen()
options = ["-q", "-c", os.devnull, "-p", "no:cacheprovider", "--import-mode=importlib", "-k", sys.argv[2]]
pytest.main([*options, sys.argv[1]], plugins=[seen])
from torch.testing._internal.common_methods_invocations import op_db
known = {}
for op in op_db:
    name = ".".join(part for part in (op.name, op.variant_test_name) if part)
    known[name] = sorted(str(dtype).removeprefix("torch.") for dtype in op.supported_dtypes("cpu"))
json.dump({"outcomes": seen.outcomes, "known": known}, open(sys.argv[3], "w"))
"""


@dataclass(frozen=True, kw_only=True)
class Ran:
    """Some tests of the suite: their outcomes, and the dtypes of every operator there is."""

    outcomes: dict[str, str]
    known: dict[str, list[str]]


def run(device: str, which: str, folder: Path) -> Ran:
    env = os.environ | device_environment(device) | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    report = folder / f"{device}.json"
    argv: list[str | Path] = [sys.executable, "-c", RUN, OP_SUITE / "test_op_suite.py", which, report]
    run_command(argv, timeout_s=500, env=env)
    return Ran(**json.loads(report.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run("spyre", SAMPLE, tmp_path_factory.mktemp("sample"))


def declared() -> list[dict[str, Any]]:
    suite = yaml.safe_load((OP_SUITE / "suite.yaml").read_text(encoding="utf-8"))["test_suite_config"]
    (file,) = suite["files"]
    assert file["path"] == "${TORCH_DEVICE_ROOT}/test_op_suite.py"
    assert file["unlisted_test_mode"] == "mandatory_success"
    tests: list[dict[str, Any]] = [one for one in file["tests"] if "edits" in one]
    assert len(tests) == len(file["tests"]) - 1
    return tests


@pytest.mark.nightly
def test_a_sample_of_the_suite_passes_on_the_device(sample: Ran) -> None:
    seen = sample.outcomes
    assert len(seen) > 60
    assert {name for name, outcome in seen.items() if outcome != "passed"} == set()
    assert all("_spyre_" in name for name in seen)


@pytest.mark.nightly
def test_the_suite_runs_on_the_cpu_as_a_control(tmp_path: Path) -> None:
    seen = run("cpu", "test_op_add_ or test_op_empty_", tmp_path).outcomes
    assert "test_op_add_cpu_float32" in seen
    assert set(seen.values()) == {"passed"}


@pytest.mark.nightly
def test_what_is_declared_as_failing_fails(tmp_path: Path) -> None:
    seen = run("spyre", "to_sparse or sampled_addmm or chunked_none_spyre_float16", tmp_path).outcomes
    assert len(seen) == 17
    assert set(seen.values()) == {"failed"}


def test_the_suite_file_names_only_what_there_is(sample: Ran) -> None:
    for entry in declared():
        assert entry["names"] == ["TestOpSuite::test_op"]
        dtypes = {row["name"] for row in entry["edits"].get("dtypes", {}).get("include", [])}
        for row in entry["edits"]["ops"]["include"]:
            assert row["name"] in sample.known
            assert dtypes <= set(sample.known[row["name"]])


def test_every_declared_gap_has_a_reason_of_its_own() -> None:
    reasons = [row["description"] for entry in declared() for row in entry["edits"]["ops"]["include"]]
    assert all(len(reason) > 20 for reason in reasons)
    assert len(set(reasons)) == len(reasons)


def test_no_more_than_three_per_cent_are_declared(sample: Ran) -> None:
    gaps = sum(
        len(entry["edits"].get("dtypes", {}).get("include", [])) or len(sample.known[row["name"]])
        for entry in declared()
        for row in entry["edits"]["ops"]["include"]
    )
    assert gaps <= 0.03 * sum(len(dtypes) for dtypes in sample.known.values())
