"""How a run ends, once for all commands that run something."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from rich.console import Console

from ci.config import load_settings
from ci.main_job.report import end_run
from ci.record.identity import RunIdentity
from ci.record.verdict import Verdict
from ci.report.live.events import Sink
from ci.report.totals import Summary
from ci.steps.context import Context
from ci.steps.folder import RunFolder


@pytest.mark.parametrize(
    ("interrupted", "code", "said"),
    [(False, 1, ""), (True, 130, "to resume: spyre-ci run --resume '/runs/my run'\n")],
)
def test_a_run_ends_with_a_code_an_event_and_what_to_type(
    tmp_path: Path, *, interrupted: bool, code: int, said: str
) -> None:
    out = io.StringIO()
    context = Context(
        settings=load_settings(path=None, environ={}, flags={}, cwd=tmp_path), environ={},
        clock=lambda: 0.0, monotonic=lambda: 0.0, console=Console(file=out, width=200), cores=1,
    )  # fmt: skip
    file = tmp_path / "events"
    sink = Sink(os.open(file, os.O_WRONLY | os.O_CREAT), lambda: 0.0)
    folder = RunFolder(path=Path("/runs/my run"))
    identity = RunIdentity(
        run="r", run_id=1, run_attempt=1, device="cpu", pytorch_version="2.13.0", pytorch_sha="x", stage=None,
        percent=100.0, started_at=1.0,
    )  # fmt: skip
    summary = Summary(
        identity=identity, planned=2, verdicts={Verdict.FAILED: 2}, collect_errors=(), exit_code=1,
        reasons=("2 tests failed",), completed_at=2.0,
    )  # fmt: skip
    for events in (sink, None):
        ended = end_run(context, folder, summary, interrupted=interrupted, events=events)
        assert ended == code
    assert sink.close() == ""
    row = json.loads(file.read_text())
    assert (row["event"], row["exit"], row["counts"]["failed"]) == ("run_end", code, 2)
    assert out.getvalue() == said * 2
