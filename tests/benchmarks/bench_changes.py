"""Tests chosen by a change: what recording costs a test, and how long choosing takes.

Choosing is of made-up tests that call as many ops as those of the op suite.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from ci.core.commands import finish_command, refuse_failed
from ci.runner.call_recorder import CallRecorder
from ci.runner.child import module_words
from test_selection.catalog import read_catalog
from test_selection.change import WHOLE_FILE, Evidence, keep_share, rank_tests
from test_selection.op_map import FILE, make_op_map, read_op_map, write_op_map
from test_selection.selection import read_selection
from tests.benchmarks import inputs
from tests.benchmarks.forked_runs import ForkedRuns

ROOT = Path(__file__).parent.parent.parent
OPS, DTYPES, MOST_CALLS = 1_500, 12, 12
RUN_S = 300


def measure_choosing(tests: int) -> dict[str, Any]:
    """Seconds to read an op map and to rank tests by it, and the bytes of its file, a test."""
    catalog = inputs.about_ops(tests)
    rng = random.Random(inputs.SEED)
    traces = {
        test.id: {f"aten::{test.op} float32", *(_call(rng) for _ in range(rng.randrange(MOST_CALLS)))}
        for test in catalog
    }
    changes = {
        "one op": Evidence(ops={"o7": "its kernel changed"}),
        "a helper of 60 ops": Evidence(ops={f"o{number}": "it changed" for number in range(60)}),
        "all of a file of torch": Evidence(functions={f"torch/functional.py:{WHOLE_FILE}": "it changed"}),
        "anything": Evidence(everything=["a.cpp is no Python source"]),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, FILE)
        write_op_map(path, make_op_map(traces, pytorch="2.13.0", device="spyre"))
        size = path.stat().st_size
        began = time.perf_counter()
        op_map = read_op_map(path)
        read_s = time.perf_counter() - began
    took = {}
    for name, evidence in changes.items():
        began = time.perf_counter()
        keep_share(rank_tests(catalog, evidence, op_map), 5)
        took[name] = time.perf_counter() - began
    return {"tests": tests, "read_s": read_s, "rank_s": took, "map_bytes": size / tests}


def _call(rng: random.Random) -> str:
    return f"aten::o{rng.randrange(OPS)} d{rng.randrange(DTYPES)}"


def measure_recording(run: Path, rounds: int) -> dict[str, Any]:
    """The share of their CPU that it takes to record what a run's tests call, without pytest's own.

    It is timed by itself, as two runs of the same tests differ by more than it takes.

    Args:
        run: folder of a reported run of the op suite.
        rounds: how often the tests run; the median counts.
    """
    nodes = {test.id: test.node for test in read_catalog(run / "catalog.jsonl.gz").tests}
    ids = read_selection(run / "selection.json").ids
    runs = ForkedRuns(nodes)
    from ci.device.calls import Calls  # noqa: PLC0415  # as torch, which must not be here before

    spent_s, note = [0.0], Calls.note

    def timed(act: Callable[..., Any]) -> Callable[..., Any]:
        def timing(*given: Any) -> Any:
            began = time.perf_counter()
            try:
                return act(*given)
            finally:
                spent_s[0] += time.perf_counter() - began

        return timing

    recorder = CallRecorder.of_this_process({})
    assert recorder is not None
    runs.after_test = timed(recorder.of_test)
    shares = []
    with mock.patch.object(Calls, "note", timed(note)), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(rounds):
            spent_s[0], began = 0.0, time.process_time()
            runs.run_here(lambda: None, ids)
            shares.append(spent_s[0] / (time.process_time() - began))
    size = (run / FILE).stat().st_size / len(ids)
    return {"tests": len(ids), "share": statistics.median(shares), "map_bytes": size}


def measure(*, tests: int, percent: float, rounds: int) -> dict[str, Any]:
    """Everything; what is recorded are the calls of so much of the op suite."""
    with tempfile.TemporaryDirectory() as folder:
        words = [*module_words("ci.cli", here=Path(folder)), "pytorch", "--percent", f"{percent:g}"]
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        ended = finish_command(words, timeout_s=RUN_S, env=environ, cwd=Path(folder))
        refuse_failed(words, ended, remedy="run it by hand")
        (run,) = Path(folder, "runs").iterdir()
        return {"choosing": measure_choosing(tests), "recording": measure_recording(run, rounds)}


def show(found: dict[str, Any]) -> None:
    """What `measure` found, as lines."""
    choosing, recording = found["choosing"], found["recording"]
    print(f"choosing among {choosing['tests']:,} tests; the op map is read in {choosing['read_s']:.2f} s")
    for name, seconds in choosing["rank_s"].items():
        print(f"  {name:<24} {seconds:.2f} s")
    share, size = 100 * recording["share"], recording["map_bytes"]
    print(f"recording {recording['tests']:,} tests: {share:.2f} % of their CPU, {size:.1f} bytes a test")
