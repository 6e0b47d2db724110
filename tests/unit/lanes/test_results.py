from __future__ import annotations

from pathlib import Path

import pytest

from ci.errors import BadFileError
from ci.lanes.ends import of_jenkins, settled
from ci.lanes.order import Standing
from ci.lanes.results import brought_of, limit_of, roots_of
from tests.pipeline_runs import report_folder


def test_a_run_is_a_folder_with_a_whole_report_and_leads_nowhere_else() -> None:
    files = [
        "runs/ci/summary.json", "runs/ci/results.jsonl.gz", "runs/half/summary.json", "summary.json",
        "results.jsonl.gz", "a/../../x/summary.json", "a/../../x/results.jsonl.gz",
        "runs/ci/control/summary.json",
    ]  # fmt: skip
    assert roots_of(files) == ["", "runs/ci/"]


@pytest.mark.parametrize(
    ("path", "taken"),
    [
        ("summary.json", True),
        ("results.jsonl.gz", True),
        ("journal/12-1.jsonl", True),
        ("journal/../summary.json", False),
        ("report.html", False),
        ("x/summary.json", False),
    ],
)
def test_of_a_run_only_known_files_are_taken(path: str, *, taken: bool) -> None:
    assert (limit_of(path) is not None) == taken


def test_no_more_runs_are_brought_than_agreed_and_a_broken_one_hides_no_other(tmp_path: Path) -> None:
    def fetch(name: str, into: Path) -> bool:
        if name == "1":
            raise BadFileError("is broken")
        if name == "2":
            return False
        report_folder(into, {"test_0.py::T::a": "failed" if name == "3" else "passed"})
        return True

    brought = brought_of(tmp_path, [str(number) for number in range(25)], fetch)
    assert sorted(brought.codes) == [0] * 17 + [1, 3, 3]
    assert len(brought.runs) == 18
    assert brought.notes == ["results of 1 cannot be used: is broken", "of 25 results only 20 were brought"]


def test_a_red_report_that_is_cut_short_leaves_nothing_green(tmp_path: Path) -> None:
    def fetch(_: str, into: Path) -> bool:
        report_folder(into, {"test_0.py::T::a": "failed"})
        results = into / "results.jsonl.gz"
        results.write_bytes(results.read_bytes()[:-10])
        return True

    brought = brought_of(tmp_path, ["ci"], fetch)
    seen = settled(of_jenkins("SUCCESS"), brought.codes, wants_results=True)
    assert (seen.standing, seen.exit_code) == (Standing.INCOMPLETE, 3)
