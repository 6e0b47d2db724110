"""The verbs as a job calls them: the gate's code and table, and whose a status is where two builds set it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ci.cli.app import run
from ci.pipeline.status import overtaken

CHANGES = {"result": "success", "outputs": {"unit": "false", "pytorch_blocking": "false"}}


@pytest.fixture(autouse=True)
def _a_github_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))


def gate(monkeypatch: pytest.MonkeyPatch, expect: str, **jobs: Any) -> int:
    needs = {"changes": CHANGES} | {name: {"result": result} for name, result in jobs.items()}
    monkeypatch.setenv("NEEDS", json.dumps(needs))
    return run(["pipeline", "gate", "--expect", expect])


def test_an_open_gate_tells_of_every_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = {"lint": "success", "unit": "skipped", "pytorch": "failure"}
    assert gate(monkeypatch, "lint, unit,pytorch,", **jobs) == 0
    assert capsys.readouterr().out.splitlines() == [
        "changes  ok        succeeded",
        "lint     ok        succeeded",
        "unit     left out  was left out by what changed",
        "pytorch  told      failed, or ran out of time",
    ]
    assert "| `unit` | `left out` | `was left out by what changed` |" in (tmp_path / "summary.md").read_text()


def test_a_closed_gate_tells_of_every_job_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(monkeypatch, "lint,unit", lint="cancelled", unit="skipped") == 1
    told = capsys.readouterr()
    assert "lint     red       was cancelled" in told.out
    assert "1 of 3 jobs keep the gate closed: lint was cancelled" in told.err
    assert "| `lint` | `red` |" in (tmp_path / "summary.md").read_text()


def test_what_a_job_is_called_is_no_more_than_a_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(monkeypatch, "lint", lint="success", **{"::error::x\n::stop": "failure", "a|b": "odd"}) == 1
    told = capsys.readouterr()
    assert not any(line.startswith("::") for line in (told.out + told.err).splitlines())
    assert len([line for line in (tmp_path / "summary.md").read_text().splitlines() if line[:1] == "|"]) == 6


@pytest.mark.parametrize("expect", ["", " ", ",,"])
def test_a_gate_that_expects_nothing_is_closed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], expect: str
) -> None:
    assert gate(monkeypatch, expect, lint="success") == 2
    assert "no job is expected" in capsys.readouterr().err


JOB = "https://jenkins.example/job/pr/"


@pytest.mark.parametrize(
    ("number", "newer"), [("6", True), ("5", False), ("9" * 18, True), ("9" * 5000, False)]
)
def test_a_page_of_a_newer_build_is_one_whose_number_a_build_can_have(number: str, newer: bool) -> None:
    page = f"{JOB}{number}/"
    found = overtaken(f"{JOB}5/", "ci", [{"context": "ci", "target_url": page}])
    assert found == (page if newer else "")
