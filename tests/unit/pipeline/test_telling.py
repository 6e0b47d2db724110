"""Names in what is shown command neither a terminal nor a CI, and no page is worth a failure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci.pipeline.telling import hand_on, say, show_table, table_lines


def test_columns_stand_below_each_other() -> None:
    assert table_lines([("lint", "ok", "x"), ("emulated", "left out", "y")]) == [
        "lint      ok        x",
        "emulated  left out  y",
    ]
    assert table_lines([]) == []


def test_what_a_file_is_called_commands_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "summary.md"
    environ = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(page)}
    show_table("T", ("job", "why"), [("::error::x", "a|b`\n| c | d |\x1b[2J")], environ)
    say("::warning::y\n::error::z")
    out = capsys.readouterr().out
    assert not any(line.startswith("::") for line in out.splitlines())
    assert "\x1b" not in out
    assert [line for line in page.read_text().splitlines() if line.startswith("|")][2:] == [
        "| `::error::x` | <code>a&#124;b&#96; &#124; c &#124; d &#124;</code> |"
    ]


def test_a_page_that_cannot_be_written_is_told_and_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show_table("T", ("a",), [("b",)], {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path)})
    assert "step summary: not written" in capsys.readouterr().out


def test_outputs_go_to_github_and_to_a_file(tmp_path: Path) -> None:
    environ = {"GITHUB_OUTPUT": str(tmp_path / "output")}
    hand_on({"lint": True, "why": "a\nb"}, environ, out=tmp_path / "out.json", kind="changes")
    assert json.loads((tmp_path / "out.json").read_text()) == {
        "schema": "spyre-ci/changes/1",
        "lint": True,
        "why": "a\nb",
    }
    lines = (tmp_path / "output").read_text().splitlines()
    assert lines[0] == "lint=true"
    mark = lines[1].removeprefix("why<<")
    assert lines[2:] == ["a", "b", mark]
    assert len(mark) == 32
