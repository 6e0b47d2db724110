"""`spyre-ci doctor` as it is typed, where nothing needs a process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci.cli.app import run
from tests.json_documents import differences

QUIET = ["--only", "device", "--only", "cards", "--only", "disk", "--only", "tokens"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPYRE_CI__RUN__LEASES", str(tmp_path / "l"))
    monkeypatch.delenv("SPYRE_CI_HUD_TOKEN", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_each_finding_is_a_line_and_the_totals_come_last(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", *QUIET, "--device", "spyre"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "ok       device  spyre, emulated, no card, by the emulated device"
    assert [line.split()[1] for line in shown[:3]] == ["device", "cards", "tokens"]
    assert shown[-1].endswith(", 0 faults")


def test_a_fault_ends_with_2_and_has_its_remedy_below(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPYRE_CI__REPORT__ENDPOINT", "https://hud.example.org")
    assert run(["doctor", "--only", "tokens"]) == 2
    first, second, last = capsys.readouterr().out.splitlines()
    assert first == "fault    tokens  SPYRE_CI_HUD_TOKEN, to report to report.endpoint: missing"
    assert second.strip() == "remedy: set SPYRE_CI_HUD_TOKEN"
    assert last == "0 fine, 0 warnings, 1 fault"


def test_json_is_one_object_and_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", *QUIET, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert differences("doctor", told) == []
    assert list(told["seconds"])
    assert set(told["seconds"]) == {"device", "cards", "tokens", "disk"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--only", "dsk"], "there is no look 'dsk'\n  remedy: did you mean disk? they are python, nox"),
        (["--only", "disk", "--skip", "disk"], "nothing is left to look at"),
    ],
)
def test_what_is_refused_is_said(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", *words]) == 2
    assert said in capsys.readouterr().err


def test_what_is_quoted_commands_no_log_of_githubs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    folder = tmp_path / "##[error]x [red]y"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert run(["doctor", "--only", "disk"]) == 0
    out = capsys.readouterr().out
    assert "##[" not in out
    assert "[red]y" in out
