"""What of a past run is run again, and what is said where nothing can be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ci.core.errors import MissingInputError
from ci.main_job.request import Failures, choose, failures_of
from ci.record.identity import RunIdentity
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.results import write_results, write_summary
from ci.report.totals import CollectError, Summary
from ci.runner.retries import STOPPED_BY
from ci.steps.folder import RunFolder

GOOD = Result(id="test_a.py::T::good", verdict=Verdict.PASSED, file="test_a.py")
BAD = Result(id="test_a.py::T::bad", verdict=Verdict.FAILED, file="test_a.py")
LOST = Result(id="test_l%25.py::T::lost", verdict=Verdict.NOT_RUN, file="test_l%.py")
IDENTITY = RunIdentity(
    run="r", run_id=1, run_attempt=1, device="cpu", pytorch_version="2.13.0", pytorch_sha="x", stage=None,
    percent=100.0, started_at=1.0,
)  # fmt: skip


def summary(
    exit_code: int, *reasons: str, broken: tuple[str, ...] = (), allow_collect_errors: bool = False
) -> Summary:
    return Summary(
        identity=IDENTITY,
        planned=1,
        verdicts={},
        collect_errors=tuple(CollectError(file=file, error="x") for file in broken),
        exit_code=exit_code,
        reasons=reasons,
        completed_at=2.0,
        allow_collect_errors=allow_collect_errors,
    )


def test_tests_that_did_not_pass_and_files_that_were_not_collected_are_run_again_together() -> None:
    found = choose([GOOD, BAD, LOST], summary(3, broken=("test_b.py", "test_c.py")), "latest", [])
    assert found == Failures(
        ids=(BAD.id, LOST.id),
        files=("test_b.py", "test_c.py"),
        said="rerun: 2 tests, and all tests of 2 files that could not be collected (test_b.py …)",
        exit_code=3,
    )


def test_of_a_run_that_stopped_for_its_failures_only_what_failed_is_run_again() -> None:
    left = replace(LOST, message=f"stopped after 1 failure {STOPPED_BY}")
    assert choose([GOOD, BAD, left], summary(1), "latest", []).ids == (BAD.id,)
    assert choose([GOOD, BAD, LOST], summary(1), "latest", []).ids == (BAD.id, LOST.id)


def test_a_file_that_was_not_collected_is_run_again_though_every_test_passed() -> None:
    found = choose([GOOD], summary(3, broken=("test_b.py",)), "latest", [])
    assert (found.ids, found.files) == ((), ("test_b.py",))
    assert found.said == "rerun: all tests of 1 file that could not be collected (test_b.py)"


@pytest.mark.parametrize(
    ("pattern", "ids", "files"),
    [
        ("test_[ac].py", (BAD.id,), ()),
        ("test_b*", (), ("test_b.py",)),
        ("test_l%.py", (LOST.id,), ()),
        ("/_[bl]/", (LOST.id,), ("test_b.py",)),
    ],
)
def test_of_both_only_what_is_in_the_wanted_files_is_run_again(
    pattern: str, ids: tuple[str, ...], files: tuple[str, ...]
) -> None:
    found = choose([GOOD, BAD, LOST], summary(3, broken=("test_b.py",)), "latest", [pattern])
    assert (found.ids, found.files) == (ids, files)


@pytest.mark.parametrize(("patterns", "within"), [([], ""), (["test_a*", "b.py"], " in test_a*, b.py")])
def test_a_red_run_of_which_nothing_can_be_run_again_says_why_and_keeps_its_exit_code(
    patterns: list[str], within: str
) -> None:
    said = f"nothing of latest can be rerun{within}, and it ended with exit 1: 1 quarantine entry expired"
    found = choose([GOOD], summary(1, "1 quarantine entry expired"), "latest", patterns)
    assert found == Failures(ids=(), files=(), said=said, exit_code=1)


def test_of_a_green_run_nothing_is_run_again() -> None:
    found = choose([GOOD], summary(0), "latest", [])
    assert found.said == "nothing to rerun: every test of latest passed"
    assert found.exit_code == 0


def test_files_that_the_run_was_allowed_not_to_collect_are_told_and_left() -> None:
    found = choose([GOOD], summary(0, broken=("b.py",), allow_collect_errors=True), "latest", [])
    assert (found.ids, found.files, found.exit_code) == ((), (), 0)
    but = "but 1 file that could not be collected, as it was allowed"
    assert found.said == f"nothing to rerun: every test of latest passed {but}"


def test_a_run_without_its_summary_is_not_taken_for_green(tmp_path: Path) -> None:
    folder = RunFolder(path=tmp_path)
    write_results(folder.results, "r", [GOOD])
    with pytest.raises(MissingInputError, match="there is no summary file"):
        failures_of(folder, "latest", [])
    write_summary(folder.summary, summary(3, "1 journal of another plan"))
    assert failures_of(folder, "latest", []).exit_code == 3
