"""A job over 2,048 pods on paper: its packed plan, and what they left gathered, told of and reported.

Collecting runs in a process of its own, whose time and memory it is that count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from ci.jobs.plan_chunks import chunks_of, pack_plan
from test_selection.ci_jobs import CiJob
from test_selection.plan import Plan
from tests.many_pods import RUN, make_folder, make_plan, make_store

ROOT = Path(__file__).parent.parent.parent
TIMEOUT_S = 1800
# What the verb took, and the most memory it had at once, in a process of its own.
COLLECT = """
import json, sys, time
from ci.cli.app import run
from tests.peak import peak_bytes
began = time.perf_counter()
code = run(sys.argv[2:])
took = time.perf_counter() - began
peak = peak_bytes() / 2**20
with open(sys.argv[1], "w") as stream:
    json.dump({"code": code, "seconds": took, "cpu_s": time.process_time(), "mib": peak}, stream)
"""


def collect(runs: Path, store: str, out: Path, **environ: str) -> dict[str, Any]:
    """Exit code, seconds and peak memory in MiB of gathering and reporting a run."""
    words = ["job", "collect", str(runs / RUN), "--from", store]
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, str(out), *words],
        cwd=runs.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SPYRE_CI__REPORT__ENDPOINT": "none", **environ},
        timeout=TIMEOUT_S, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"it broke:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found | {"said": done.stdout}


def packed(folder: Path, plan: Plan) -> dict[str, Any]:
    """Seconds, bytes in all and chunks of the packed plan, with a pod for each shard."""
    legs = [CiJob(shards=(shard.index,), cards=1, expected_s=shard.expected_s) for shard in plan.shards]
    began = time.perf_counter()
    sizes = [len(data) for data in chunks_of(pack_plan(folder, legs)).values()]
    return {"seconds": time.perf_counter() - began, "bytes": sum(sizes), "chunks": len(sizes)}


def measure(shards: int, tests: int) -> dict[str, Any]:
    """Everything, in a folder that is removed."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        plan = make_plan(shards, tests)
        make_folder(home / "runs" / RUN, plan)
        made = make_store(home / "store", plan)
        found = {"plan": packed(home / "runs" / RUN, plan)}
        found["collect"] = collect(home / "runs", str(home / "store"), home / "first.json")
        found["again"] = collect(home / "runs", str(home / "store"), home / "second.json")
        return found | {"counts": made.counts, "pods": shards, "tests": tests}


def show(found: dict[str, Any]) -> None:
    """What `measure` found, as lines."""
    plan = found["plan"]
    print(f"{found['pods']:,} pods, {found['tests']:,} tests")
    print(f"  plan: {plan['seconds']:.1f} s, {plan['bytes']:,} bytes in {plan['chunks']} chunks")
    for what in ("collect", "again"):
        row = found[what]
        took = f"{row['seconds']:.1f} s, {row['cpu_s']:.1f} s of them CPU"
        print(f"  {what}: {took}, {row['mib']:.0f} MiB, exit code {row['code']}")
