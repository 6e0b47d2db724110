from __future__ import annotations

from typing import Any

from ci.record.verdict import Verdict
from ci.report.compare.sides import side_of
from ci.report.reader import CollectError, RanIn, ReadRun, ReadSummary, Row, RunInfo

WHO = RunInfo(device="spyre", pytorch_version="2.13.0", pytorch_sha="a" * 40, percent=5, stage=1)


def told(*rows: Row, **content: Any) -> ReadRun:
    given = {"schema": "s", "run": "r", "planned": len(rows), "exit_code": 0, "identity": WHO}
    return ReadRun(summary=ReadSummary(**{**given, **content}), rows=rows)


def test_another_version_of_the_back_end_is_what_is_under_test_and_no_other_back_end() -> None:
    ran = [RanIn(back_end="torch_spyre 1.2.dev3 at 0123456789ab", torch="2.13.0")]
    side = side_of(told(ran_in=ran))
    assert side.facts["back end"] == "torch_spyre"
    assert side.facts["torch in the tests"] == "2.13.0"
    assert side.under_test == "torch_spyre 1.2.dev3 at 0123456789ab"
    who = RunInfo(
        device="spyre", pytorch_version="2", pytorch_sha="", percent=5, back_end="the emulated device",
        commit="f" * 40, started_at="2026-02-02T00:00:00Z",
    )  # fmt: skip
    side = side_of(told(identity=who))
    assert side.facts["back end"] == "the emulated device"
    assert side.under_test == "the emulated device, checkout ffffffffffff"
    assert side.started_at == 1_769_990_400.0


def test_what_has_no_outcome_is_counted() -> None:
    rows = [Row(id=one.value, verdict=one) for one in Verdict]
    error = CollectError(file="a.py", error="x")
    side = side_of(told(*rows, collect_errors=[error]))
    assert side.lacking == "3 tests without an outcome, 1 file not collected"
    assert side_of(told()).lacking == ""
    assert side_of(told()).started_at is None
