from __future__ import annotations

import io

from rich.console import Console

from ci.core.progress import bar


def test_without_a_terminal_there_is_a_line_now_and_then() -> None:
    out = io.StringIO()
    now = [0.0]
    with bar(Console(file=out, width=40), lambda: now[0], "running", 100) as shown:
        for step in range(50):
            now[0] = 5.0 + step
            shown.advance(f"{step + 1} passed [red]")
    lines = out.getvalue().splitlines()
    assert len(lines) == 5
    assert lines[1] == "running 16/100 16 passed [red] (1.0/s, about 84 s left)"


def test_a_terminal_gets_a_bar_and_warnings_stay() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80)
    with bar(console, lambda: 0.0, "collecting", 2) as shown:
        shown.advance("test_a.py")
        shown.warn("shard 0: [bold]lost[/bold]")
    assert "1/2" in out.getvalue()
    assert "shard 0: [bold]lost[/bold]" in out.getvalue()


def test_a_long_step_is_no_long_silence() -> None:
    out = io.StringIO()
    now = [0.0]
    with bar(Console(file=out, width=40), lambda: now[0], "collecting", 2) as shown:
        shown.advance("test_a.py")
        for now[0] in (30.0, 59.0, 61.0, 90.0, 122.0):
            shown.tick()
    assert out.getvalue().splitlines() == ["collecting 1/2, still at it"] * 2
