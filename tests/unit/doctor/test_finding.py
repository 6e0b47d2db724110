"""A finding is on one line and without secrets, and its remedy can be pasted."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import SettingsError
from ci.core.text import shell_line
from ci.doctor.finding import Finding, Level, document, fault, lines, of_error, ok, warning


def test_only_a_fault_is_in_the_exit_code_and_all_are_counted() -> None:
    found = [ok("fine"), warning("old", "newer")]
    assert document(found)["exit_code"] == 0
    assert document([*found, fault("full", "free")]) == {
        "findings": [
            {"check": "", "level": "ok", "message": "fine", "remedy": ""},
            {"check": "", "level": "warning", "message": "old", "remedy": "newer"},
            {"check": "", "level": "fault", "message": "full", "remedy": "free"},
        ],
        "counts": {"ok": 1, "warning": 1, "fault": 1},
        "exit_code": 2,
    }


def test_a_finding_shows_no_password_and_no_control() -> None:
    one = fault("https://me:pass/word@host/simple\n\x1b[31mred ?token=abc", "retry https://u:p@host/x")
    assert (one.message, one.remedy) == ("https://host/simple red ?token=***", "retry https://host/x")


def test_only_what_is_wrong_has_a_remedy_and_an_error_keeps_its_own() -> None:
    for level, remedy in ((Level.OK, "fix"), (Level.FAULT, "")):
        with pytest.raises(ValueError, match="has a remedy"):
            Finding(level, "x", remedy)
    found = of_error(SettingsError("is wrong", where="report.endpoint", remedy="set it"))
    assert (found.message, found.remedy) == ("report.endpoint: is wrong", "set it")
    assert of_error(SettingsError("is wrong")).remedy


@given(st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_a_command_survives_as_a_remedy(words: list[str]) -> None:
    """Blanks in paths are neither lost nor joined: what is pasted is what was meant."""
    words = ["rm", "--", *(word.encode("utf-8", "replace").decode() for word in words)]
    line = shell_line(words)
    shown = fault("x", line).remedy
    assert "\n" not in shown
    assert shown == line if "$'" in line else shlex.split(shown) == words


def test_each_line_has_its_remedy_below_and_commands_no_log_of_a_ci() -> None:
    found = [Finding(Level.OK, "room", check="disk"), Finding(Level.FAULT, "##[group]gone", "pip x", "torch")]
    assert lines(found) == [
        (Level.OK, "ok       disk   room"),
        (Level.FAULT, "fault    torch  # #[group]gone"),
        (None, "                remedy: pip x"),
        (None, "1 ok, 0 warnings, 1 fault"),
    ]
