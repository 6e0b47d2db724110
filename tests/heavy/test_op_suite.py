"""The whole op suite on the emulated device: how much of it passes is a promise."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from ci.record.verdict import Verdict
from ci.report.results import read_results

Call = Callable[..., tuple[int, str, str]]


def test_97_per_cent_pass_undeclared_and_every_other_gap_has_its_reason(
    spyre_ci: Call, tmp_path: Path
) -> None:
    code, out, err = spyre_ci("pytorch", "--percent", "100")
    assert (code, err) == (0, ""), out[-3000:]
    (run,) = (tmp_path / "runs").iterdir()
    results = read_results(run / "results.jsonl.gz")
    compared = [one for one in results if "op=empty" not in one.id and "op=new_empty" not in one.id]
    passed = sum(one.verdict is Verdict.PASSED for one in compared)
    assert len(results) > 6000
    assert passed >= 0.97 * len(compared)
    assert all(one.message for one in results if one.verdict in (Verdict.XFAILED, Verdict.SKIPPED))
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    assert f"{summary['planned']:,} planned: {summary['verdicts']['passed']:,} passed" in out
    assert f"of {summary['in_scope']:,} in scope" in out
