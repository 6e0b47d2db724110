"""The one boundary between a user's error, an interrupt and a bug."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
import typer

from ci.cli.app import EXIT_BUG, run
from ci.core.errors import EXIT_INTERRUPTED, EXIT_USAGE, UsageError

Verb = Callable[[Callable[[], None]], None]


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Verb:
    """Makes a function the only verb there is."""

    def take(function: Callable[[], None]) -> None:
        verbs = typer.Typer(pretty_exceptions_enable=False)
        verbs.command()(function)
        monkeypatch.setattr("ci.cli.app.app", verbs)

    return take


def raising(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def test_an_end_of_file_that_nobody_caught_is_a_bug_and_no_interrupt(
    verb: Verb, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("platform.platform", lambda: "a machine")  # it asks `uname`
    verb(raising(EOFError("Compressed file ended before the end-of-stream marker was reached")))
    assert run([]) == EXIT_BUG
    said = capsys.readouterr().err
    assert "spyre-ci: this is a bug" in said
    assert "EOFError: Compressed file ended before" in said
    assert "interrupted" not in said


@pytest.mark.parametrize("error", [KeyboardInterrupt(), typer.Abort()], ids=["signal", "abort"])
def test_whoever_interrupts_is_told_so(
    verb: Verb, capsys: pytest.CaptureFixture[str], error: BaseException
) -> None:
    verb(raising(error))
    assert run([]) == EXIT_INTERRUPTED
    assert "bug" not in capsys.readouterr().err


def test_who_calls_in_a_folder_that_was_removed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert run(["doctor", "--only", "python"]) == EXIT_USAGE
    assert "no longer exists" in capsys.readouterr().err


def test_whoever_leaves_a_prompt_interrupts(verb: Verb, monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(*_: object) -> NoReturn:
        raise EOFError

    def ask() -> None:
        typer.prompt("Which")

    monkeypatch.setitem(typer.prompt.__globals__, "visible_prompt_func", leave)
    verb(ask)
    assert run([]) == EXIT_INTERRUPTED


def test_an_error_shows_what_it_quotes_and_does_nothing(
    verb: Verb, capsys: pytest.CaptureFixture[str]
) -> None:
    verb(raising(UsageError("a\n::error::x\r\x1b[2J", where="::add-mask::f", remedy="##[group]r")))
    assert run([]) == 2
    assert capsys.readouterr().err == ("spyre-ci: ::add-mask::f: a\n| ::error::x\n  remedy: # #[group]r\n")
