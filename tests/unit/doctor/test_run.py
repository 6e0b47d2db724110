"""Checks side by side: what hangs, fails or is late costs its own line and no other's; the verb as typed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci.cli.app import run as spyre_ci
from ci.core.commands import Ended
from ci.core.errors import SettingsError
from ci.doctor import run
from ci.doctor.finding import Finding, ok
from ci.doctor.machine import Machine
from ci.doctor.run import CHECKS, END_S, TOTAL_S, chosen, run_checks

from .conftest import MakeMachine

QUIET = ["--only", "device", "--only", "cards", "--only", "disk", "--only", "tokens"]
Capture = pytest.CaptureFixture[str]


def fine(_: Machine) -> Iterator[Finding]:
    yield ok("fine")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SettingsError("is wrong", where="hud.port", remedy="set it"), "hud.port: is wrong"),
        (ZeroDivisionError("by zero"), "this check failed itself: ZeroDivisionError: by zero"),
    ],
)
def test_a_check_that_fails_or_hangs_costs_no_other(
    make_machine: MakeMachine, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    over, ended = threading.Event(), list[str]()

    def fails(_: Machine) -> Iterator[Finding]:
        raise error

    def hangs(_: Machine) -> Iterator[Finding]:
        over.wait(60)
        yield ok("too late")

    for name, check in {"hud": hangs, "torch": fails, "disk": fine}.items():
        monkeypatch.setitem(CHECKS, name, check)
    found = run_checks(make_machine(), ["hud", "torch", "disk"], ended=ended.append, total_s=0.5)
    assert [one.check for one in found] == ["hud", "torch", "disk"]
    assert [str(one.level) for one in found] == ["fault", "fault", "ok"]
    assert found[0].message == "did not end within 0.5 s"
    assert found[0].remedy.endswith("spyre-ci doctor --skip hud")
    assert words in found[1].message
    assert sorted(ended) == ["disk", "torch"]
    assert all(one.daemon for one in threading.enumerate() if one.name == "check-hud"), "none holds the exit"
    over.set()


@pytest.mark.parametrize("stops", [True, False])
def test_commands_are_stopped_and_waited_for_within_a_time(
    make_machine: MakeMachine, monkeypatch: pytest.MonkeyPatch, stops: bool
) -> None:
    over, stopped = threading.Event(), threading.Event()

    def waits(_: object, *, stop: object, **__: object) -> Ended:
        assert callable(stop)
        while not (stops and stop()) and not over.wait(0.01):
            pass
        stopped.set()
        return Ended(code=-15, stdout=b"", stderr=b"")

    machine = make_machine()
    object.__setattr__(machine, "run", waits)
    monkeypatch.setattr(run, "END_S", 0.2)
    monkeypatch.setitem(CHECKS, "nox", lambda one: [ok(str(one.command(["x"], limit_s=60)))])
    assert run_checks(machine, ["nox"], total_s=0.1)[0].message == "did not end within 0.1 s"
    assert stopped.is_set() == stops
    over.set()
    assert stopped.wait(30)


def test_all_is_over_in_45_seconds() -> None:
    # With Python's start on a machine that is busy.
    assert TOTAL_S + END_S + 9 <= 45


@pytest.mark.parametrize(
    ("only", "skip", "left"),
    [
        ([], ["index"], [one for one in CHECKS if one != "index"]),
        (["disk", "python"], [], ["python", "disk"]),
    ],
)
def test_checks_are_chosen_by_name(only: list[str], skip: list[str], left: list[str]) -> None:
    assert chosen(only, skip) == left


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "dsk"], "there is no check 'dsk'\n  remedy: did you mean 'disk'?"),
        (["--skip", "xyz"], "there is no check 'xyz'\n  remedy: they are python, nox, torch,"),
        (["--only", "disk", "--skip", "disk"], "no check is left\n  remedy: skip fewer"),
    ],
)
def test_a_name_that_is_unknown_is_refused(capsys: Capture, words: list[str], message: str) -> None:
    assert spyre_ci(["doctor", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.fixture
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "##[error]x [red]y").mkdir()
    monkeypatch.chdir(tmp_path / "##[error]x [red]y")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("SPYRE_CI_EMULATE", "1")
    monkeypatch.setenv("SPYRE_CI__RUN__LEASES", str(tmp_path / "l"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("SPYRE_CI_HUD_TOKEN", raising=False)


@pytest.mark.usefixtures("_here")
def test_the_verb_shows_lines_or_one_json_object(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert spyre_ci(["doctor", *QUIET]) == 0
    shown = capsys.readouterr().out
    first, *_, last = shown.splitlines()
    assert first == "ok       device  spyre by the emulated device, no card"
    assert last.endswith(", 0 faults")
    assert "##[" not in shown
    assert "[red]y" in shown
    monkeypatch.setenv("SPYRE_CI__REPORT__ENDPOINT", "https://hud.example.org")
    assert spyre_ci(["doctor", *QUIET, "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["exit_code"], found["counts"]["fault"]) == ("spyre-ci/doctor/1", 2, 1)
    (fault,) = [one for one in found["findings"] if one["level"] == "fault"]
    assert fault == {
        "check": "tokens",
        "level": "fault",
        "message": "SPYRE_CI_HUD_TOKEN, to report to report.endpoint: missing",
        "remedy": "set SPYRE_CI_HUD_TOKEN",
    }
