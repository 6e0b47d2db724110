from __future__ import annotations

import contextlib
import io
from typing import TextIO, cast

import pytest
from rich.console import Console

from ci.core.workflow_commands import Defused
from ci.live.lines import Lines
from ci.live.screen import Screen
from ci.live.view import Watcher, view_for, watching
from ci.record.events import Crash, End

from .small_states import A, B, C, D, small_state


@pytest.mark.parametrize(
    ("terminal", "environ", "kind"),
    [
        (True, {}, Screen),
        (True, {"CI": "false"}, Screen),
        (True, {"CI": "true"}, Lines),
        (True, {"JENKINS_URL": "http://j"}, Lines),
        (False, {}, Lines),
    ],
)
def test_a_terminal_gets_a_bar_and_a_log_gets_lines(
    terminal: bool, environ: dict[str, str], kind: type[object]
) -> None:
    console = Console(file=io.StringIO(), force_terminal=terminal, _environ={"TERM": "xterm"})
    assert isinstance(view_for(console, environ, lambda name, _: name), kind)


def test_a_terminal_that_cannot_move_its_cursor_gets_lines() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "dumb"})
    assert isinstance(view_for(console, {}, lambda name, _: name), Lines)


def test_a_run_is_watched_from_its_first_event_to_its_last() -> None:
    out = io.StringIO()
    console = Console(file=out, width=60)
    now = [0.0]
    view = view_for(console, {}, lambda name, _: name)
    watcher = Watcher(small_state(), view, None, lambda: now[0])
    with watching(watcher, view, lambda: now[0]):
        for shard, name in ((0, A), (0, B), (1, C), (1, D)):
            watcher.take(shard, End(id=name, outcome="passed", seconds=0.1))
        watcher.finish(interrupted=False)
    assert out.getvalue().splitlines() == [
        "a.py: 2 passed (2 of 4, 0 failed, about 5 s left)",
        "b.py: 2 passed (4 of 4, 0 failed)",
    ]


def test_on_a_terminal_the_bar_is_gone_even_after_an_error() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, _environ={"TERM": "xterm"})
    view = view_for(console, {}, lambda name, _: name)
    watcher = Watcher(small_state(), view, None, lambda: 0.0)
    with contextlib.suppress(OSError), watching(watcher, view, lambda: 0.0):
        watcher.tick()
        raise OSError("disk")
    assert "0/4" in out.getvalue()
    assert "\x1b[?25h" in out.getvalue()  # the cursor is back


def test_in_github_what_a_test_says_is_never_a_command() -> None:
    out = io.StringIO()
    console = Console(file=cast("TextIO", Defused(out)), width=60)
    view = view_for(console, {"GITHUB_ACTIONS": "true", "CI": "true"}, lambda name, _: name)
    watcher = Watcher(small_state(), view, None, lambda: 0.0)
    evil = "::add-mask::a ##[error]b"
    detail = "\n::stop-commands::x\n  ::error::x\n##[set-output name=a;]b\n"
    crash = Crash(id=A, cause="signal", message=evil, detail=detail)
    watcher.take(0, crash)
    watcher.take(0, End(id=B, outcome="skipped", message=evil))
    watcher.finish(interrupted=True)
    commands = [
        line for line in out.getvalue().splitlines() if line.lstrip().startswith("::") or "##[" in line
    ]
    assert {line.split("::")[1].split()[0] for line in commands} == {"group", "endgroup", "error"}
    assert [line for line in commands if "add-mask" in line and not line.startswith("::error ")] == []
