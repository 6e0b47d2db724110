"""Names in what is shown command neither a terminal nor a CI, and no page is worth a failure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci.pipeline.outputs import hand_on, say, show_table


@pytest.fixture(autouse=True)
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    return tmp_path / "summary.md"


def test_what_a_file_is_called_commands_nobody(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show_table("T", ("job", "why"), [("::error::x", "a|b`\n| c | d |\x1b[2J"), ("lint", "y")])
    say("::warning::y\n::error::z")
    out = capsys.readouterr().out
    assert not any(line.startswith("::") for line in out.splitlines())
    assert "\x1b" not in out
    assert "lint        y" in out
    assert [line for line in page.read_text().splitlines() if line.startswith("|")][2:] == [
        "| `::error::x` | <code>a&#124;b&#96; &#124; c &#124; d &#124;</code> |",
        "| `lint` | `y` |",
    ]


def test_a_page_that_cannot_be_written_is_told_and_no_failure(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page.mkdir()
    show_table("T", ("a",), [("b",)])
    assert "step summary: not written" in capsys.readouterr().out


def test_outputs_go_to_github_and_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    hand_on({"lint": True, "why": "a\nb"}, out=tmp_path / "out.json", kind="changes")
    assert json.loads((tmp_path / "out.json").read_text()) == {
        "schema": "spyre-ci/changes/1", "lint": True, "why": "a\nb",
    }  # fmt: skip
    lines = (tmp_path / "output").read_text().splitlines()
    assert (lines[0], lines[2:4]) == ("lint=true", ["a", "b"])
    assert lines[4] == lines[1].removeprefix("why<<")
