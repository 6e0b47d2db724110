"""README's commands, as written, in a clean clone with an environment that has nothing of this one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .clean_clone import clean_environment

ROOT = Path(__file__).parent.parent.parent
TIMEOUT_S = 1200


def only_run(clone: Path, *, besides: set[str]) -> dict[str, Any]:
    """The summary of the run that is new; its counts add up."""
    (run,) = [path for path in (clone / "runs").iterdir() if path.name not in besides]
    summary: dict[str, Any] = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    plan = json.loads((run / "plan.json").read_text(encoding="utf-8"))
    planned = sum(len(group["ids"]) for shard in plan["shards"] for group in shard["groups"])
    assert sum(summary["verdicts"].values()) == summary["planned"] == planned
    return summary


def runs(clone: Path) -> set[str]:
    return {path.name for path in (clone / "runs").iterdir()}


def test_the_first_command_ends_with_0_and_a_report_that_adds_up(clone: Path) -> None:
    out = (clone / "first.out").read_text(encoding="utf-8")
    assert (clone / "first.code").read_text(encoding="utf-8") == "0", out[-5000:]
    (run,) = re.findall(r"report: .*/runs/([^/]+)/report\.html", out)
    summary = only_run(clone, besides=runs(clone) - {run})
    assert summary["planned"] > 200
    assert "HUD: reported" in out


@contextlib.contextmanager
def nox_running(clone: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """`nox -s pytorch` in a process group of its own, once tests have begun to end."""
    before = runs(clone)
    process = subprocess.Popen(
        [".venv/bin/nox", "-s", "pytorch", "--", *words],
        cwd=clone,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        for _ in range(6000):
            journals = [
                j for run in runs(clone) - before for j in (clone / "runs" / run).glob("journal/*.jsonl")
            ]
            if journals and all('"e":"end"' in journal.read_text(encoding="utf-8") for journal in journals):
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.05)
                break
        yield process, journals[0]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)


def test_ctrl_c_through_nox_still_ends_with_an_account(clone: Path) -> None:
    before = runs(clone)
    with nox_running(clone, "--percent", "30") as (process, _):
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        out, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130, out[-3000:]
    summary = only_run(clone, besides=before)
    assert summary["verdicts"]["passed"] > 0
    assert summary["verdicts"]["not_run"] > 0
    assert summary["exit_code"] == 130


def test_a_usage_error_comes_through_nox_with_its_own_code(clone: Path) -> None:
    done = subprocess.run(
        [".venv/bin/nox", "-s", "pytorch", "--", "--stage", "9"],
        cwd=clone,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 2
    assert "there is no stage 9" in done.stdout + done.stderr


def test_a_run_can_be_split_as_the_documents_say(clone: Path) -> None:
    text = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    environ = clean_environment()
    environ["PATH"] = f"{clone}/.nox/pytorch/bin{os.pathsep}{environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", block],
        cwd=clone,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    summary = json.loads((clone / "runs" / "split" / "summary.json").read_text(encoding="utf-8"))
    assert sum(summary["verdicts"].values()) == summary["planned"] > 20
