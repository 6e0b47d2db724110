"""The op suite itself: a sample of it passes, on the device and on the CPU, and its suite file is true."""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

import yaml

from ci.device.environment import OP_SUITE, device_environment
from ci.process import run_command

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
json.dump(seen.outcomes, open(sys.argv[3], "w"))
"""

NAMES = """
import json, sys
from torch.testing._internal.common_methods_invocations import op_db
rows = {}
for op in op_db:
    name = ".".join(part for part in (op.name, op.variant_test_name) if part)
    rows[name] = sorted(str(dtype).removeprefix("torch.") for dtype in op.supported_dtypes("cpu"))
json.dump(rows, open(sys.argv[1], "w"))
"""


def outcomes(device: str, which: str, folder: Path) -> dict[str, str]:
    env = os.environ | device_environment(device) | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    report = folder / f"{device}.json"
    argv: list[str | Path] = [sys.executable, "-c", RUN, OP_SUITE / "test_op_suite.py", which, report]
    run_command(argv, timeout_s=500, env=env)
    seen: dict[str, str] = json.loads(report.read_text(encoding="utf-8"))
    return seen


@functools.cache
def operators() -> dict[str, list[str]]:
    report = Path(os.environ.get("TMPDIR", "/tmp")) / f"spyre-ci-operators-{os.getpid()}.json"  # noqa: S108  # removed below
    try:
        run_command([sys.executable, "-c", NAMES, report], timeout_s=120)
        rows: dict[str, list[str]] = json.loads(report.read_text(encoding="utf-8"))
    finally:
        report.unlink(missing_ok=True)
    return rows


def declared() -> list[dict[str, Any]]:
    suite = yaml.safe_load((OP_SUITE / "suite.yaml").read_text(encoding="utf-8"))["test_suite_config"]
    (file,) = suite["files"]
    assert file["path"] == "${TORCH_DEVICE_ROOT}/test_op_suite.py"
    assert file["unlisted_test_mode"] == "mandatory_success"
    tests: list[dict[str, Any]] = [one for one in file["tests"] if "edits" in one]
    assert len(tests) == len(file["tests"]) - 1
    return tests


def test_a_sample_of_the_suite_passes_on_the_device(tmp_path: Path) -> None:
    seen = outcomes("spyre", SAMPLE, tmp_path)
    assert len(seen) > 60
    assert {name for name, outcome in seen.items() if outcome != "passed"} == set()
    assert all("_spyre_" in name for name in seen)


def test_the_suite_runs_on_the_cpu_as_a_control(tmp_path: Path) -> None:
    seen = outcomes("cpu", "test_op_add_ or test_op_empty_", tmp_path)
    assert "test_op_add_cpu_float32" in seen
    assert set(seen.values()) == {"passed"}


def test_what_is_declared_as_failing_fails(tmp_path: Path) -> None:
    seen = outcomes("spyre", "to_sparse or sampled_addmm or chunked_none_spyre_float16", tmp_path)
    assert len(seen) == 17
    assert set(seen.values()) == {"failed"}


def test_the_suite_file_names_only_what_there_is() -> None:
    known = operators()
    for entry in declared():
        assert entry["names"] == ["TestOpSuite::test_op"]
        dtypes = {row["name"] for row in entry["edits"].get("dtypes", {}).get("include", [])}
        for row in entry["edits"]["ops"]["include"]:
            assert row["name"] in known
            assert dtypes <= set(known[row["name"]])


def test_every_declared_gap_has_a_reason_of_its_own() -> None:
    reasons = [row["description"] for entry in declared() for row in entry["edits"]["ops"]["include"]]
    assert all(len(reason) > 20 for reason in reasons)
    assert len(set(reasons)) == len(reasons)


def test_no_more_than_three_per_cent_are_declared() -> None:
    known = operators()
    gaps = sum(
        len(entry["edits"].get("dtypes", {}).get("include", [])) or len(known[row["name"]])
        for entry in declared()
        for row in entry["edits"]["ops"]["include"]
    )
    assert gaps <= 0.03 * sum(len(dtypes) for dtypes in known.values())
