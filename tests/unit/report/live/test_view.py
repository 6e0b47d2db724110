from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass, field
from typing import Any, TextIO, cast

import pytest
from rich.console import Console

from ci.core.workflow_commands import Defused
from ci.record.events import Crash, End
from ci.report.live.news import News
from ci.report.live.state import State
from ci.report.live.view import MAX_SHOWN, Lines, Screen, Watcher, picture, view_for, watching

from .small_states import A, B, C, D, Feed, shard, small_state


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
    assert isinstance(view_for(console, environ), kind)


def test_a_terminal_that_cannot_move_its_cursor_gets_lines() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "dumb"})
    assert isinstance(view_for(console, {}), Lines)


def test_a_run_is_watched_from_its_first_event_to_its_last() -> None:
    out = io.StringIO()
    console = Console(file=out, width=60)
    now = [0.0]
    view = view_for(console, {})
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
    view = view_for(console, {})
    watcher = Watcher(small_state(), view, None, lambda: 0.0)
    with contextlib.suppress(OSError), watching(watcher, view, lambda: 0.0):
        watcher.tick()
        raise OSError("disk")
    assert "0/4" in out.getvalue()
    assert "\x1b[?25h" in out.getvalue()  # the cursor is back


def test_in_github_what_a_test_says_is_never_a_command() -> None:
    out = io.StringIO()
    console = Console(file=cast("TextIO", Defused(out)), width=60)
    view = view_for(console, {"GITHUB_ACTIONS": "true", "CI": "true"})
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


@dataclass(kw_only=True)
class Log:
    """A view whose lines are kept; commands to GitHub are marked by an arrow."""

    github: bool = False
    written: list[str] = field(default_factory=list)
    view: Lines = field(init=False)

    def __post_init__(self) -> None:
        self.view = Lines(
            say=self.written.append,
            command=(lambda line: self.written.append(f"-> {line}")) if self.github else None,
        )

    def tell(self, feed: Feed) -> list[str]:
        news, feed.news = feed.news, []
        return self.news(news, feed.state, feed.now)

    def news(self, news: list[News], state: State, now: float) -> list[str]:
        before = len(self.written)
        for one in news:
            self.view.tell(one, state, now)
        return self.written[before:]


def first_file() -> Feed:
    feed = Feed(small_state(expected_s=dict.fromkeys([A, B, C, D], 100.0)))
    feed.begin(0, "a.py")
    feed.test(0, A, "passed")
    return feed


def test_a_file_that_ended_is_one_line() -> None:
    feed, log = first_file(), Log()
    assert log.tell(feed) == []
    feed.test(0, B, "skipped", "not today")
    assert log.tell(feed) == [
        "a.py: 1 passed, 1 skipped in 5.0 s on card card:0 (2 of 4, 0 failed, about 20 s left)"
    ]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"e": "crash", "cause": "signal", "message": "died by SIGSEGV"}, "CRASH [1.0s] {}  died by SIGSEGV"),
        ({"e": "crash", "cause": "exit", "message": "it left"}, "CRASH [1.0s] {}  it left"),
        ({"e": "crash", "cause": "hang", "message": "longer than 2 s"}, "HANG [1.0s] {}  longer than 2 s"),
        ({"e": "crash", "cause": "oom", "message": "killed"}, "OOM [1.0s] {}  killed"),
        ({"e": "crash", "cause": "hardware", "message": "reset"}, "HW [1.0s] {}  reset"),
        ({"e": "end", "outcome": "failed", "message": "boom\nx"}, "FAIL [1.0s] {}  boom x"),
        ({"e": "end", "outcome": "failed"}, "FAIL [1.0s] {}  no reason given"),
        ({"e": "worker_lost", "message": "died by SIGKILL"}, "LOST [1.0s] {}  died by SIGKILL"),
    ],
)
def test_what_goes_wrong_is_one_line_when_it_happens(event: dict[str, Any], line: str) -> None:
    console, out = terminal()
    feed, log, screen = first_file(), Log(), Screen(console=console)
    log.tell(feed)
    feed.event(0, "start", id=B)
    feed.event(0, event.pop("e"), id=B, seconds=1.0, **event)
    for news in feed.news:
        screen.tell(news, feed.state, feed.now)
    assert log.tell(feed)[0] == line.format(B)
    assert [shown.rstrip() for shown in out.getvalue().splitlines()] == [line.format(B)]


def test_a_thousand_failures_show_some_and_count_the_others() -> None:
    names = [f"a.py::T::t{number}" for number in range(1000)]
    feed, log = Feed(small_state(shard(0, {"a.py": names}))), Log()
    feed.begin(0, "a.py")
    for name in names:
        feed.test(0, name, "failed", "it broke")
    assert len(log.tell(feed)) == MAX_SHOWN + 1
    log.view.end(feed.state, feed.now)
    assert log.written[-1] == f"{1000 - MAX_SHOWN} more such lines are left out; the report has them all"


def test_a_retry_that_ends_the_same_way_says_nothing_and_another_end_does() -> None:
    feed, log = first_file(), Log()
    feed.test(0, B, "failed", "it broke")
    log.tell(feed)
    feed.test(1, B, "failed", "broke again", number=2)
    assert log.tell(feed) == []
    feed.event(1, "start", id=B, **{"try": 3})
    feed.event(1, "crash", id=B, cause="signal", message="died", seconds=2.0)
    assert log.tell(feed) == [f"CRASH [2.0s] {B}  died"]
    feed.test(1, B, "passed", number=4)
    assert log.tell(feed) == [f"FLAKY [1.0s] {B}  passed in try 4"]


def test_a_slow_test_is_named_once_while_it_runs() -> None:
    feed, log = first_file(), Log()  # expected: 100 s
    feed.event(0, "start", id=B)
    for moment in (100.0, 505.0, 506.5, 507.0, 560.0):
        log.view.tick(feed.state, moment)
    assert [line for line in log.written if line.startswith("SLOW")] == [f"SLOW [>500s] {B}  on card:0"]
    feed.test(0, B, "failed", "it broke")
    feed.event(0, "start", id=B, **{"try": 2})
    log.view.tick(feed.state, feed.now + 501)
    assert len([line for line in log.written if line.startswith("SLOW")]) == 2


def test_a_test_that_nobody_timed_is_slow_after_a_minute() -> None:
    feed, log = Feed(small_state(expected_s=dict.fromkeys([A, B, C, D], 0.1))), Log()
    feed.begin(0, "a.py")
    feed.event(0, "start", id=A)
    log.view.tick(feed.state, feed.now + 60)
    assert not [line for line in log.written if line.startswith("SLOW")]
    log.view.tick(feed.state, feed.now + 60.5)
    assert log.written[-1] == f"SLOW [>60s] {A}  on card:0"


def test_a_long_silence_is_broken_and_says_who_does_what() -> None:
    feed, log = first_file(), Log()
    feed.event(0, "start", id=B)
    log.view.tick(feed.state, 6.0)
    log.view.tick(feed.state, 65.9)
    assert log.written == []
    log.view.tick(feed.state, 66.0)
    work = "1 of 2 cards at work: card:0 a.py (two, 1 min 00 s)"
    assert log.written == [f"still running: 1 of 4, 0 failed, about 20 s left; {work}"]
    log.view.tick(feed.state, 100.0)
    assert len(log.written) == 1


def test_lost_workers_cards_and_files_are_told_at_once() -> None:
    feed, log = Feed(small_state()), Log()
    feed.begin(0, "a.py")
    feed.event(0, "worker_lost", id=None, message="gone")
    feed.event(0, "card_lost", card="card:0", message="lost 2 times")
    feed.event(0, "file_error", file="b.py", message="ImportError: x")
    assert log.tell(feed) == [
        "LOST worker of shard 0  gone",
        "HW card card:0 is out of use for this run  lost 2 times",
        "b.py: could not be set up on card:0: ImportError: x",
    ]


def test_tests_given_up_say_why_below_their_file() -> None:
    feed, log = Feed(small_state()), Log()
    lines = log.news(feed.state.finish(1.0, interrupted=True), feed.state, 1.0)
    assert lines[0] == "a.py: 2 not run (4 of 4, 0 failed, 4 not run)"
    assert lines[1] == "  not run: 2 tests: interrupted before it was started"


def test_in_github_details_are_folded_below_their_line() -> None:
    feed, log = first_file(), Log(github=True)
    feed.test(0, B, "skipped", "not today")
    lines = log.tell(feed)
    assert lines[0].startswith("-> ::group::a.py: 1 passed, 1 skipped in 5.0 s")
    assert lines[1:] == ["  skipped: 1 test: not today", "-> ::endgroup::"]
    feed.begin(1, "b.py")
    feed.test(1, C, "skipped", "not today")
    feed.event(1, "start", id=D)
    feed.event(1, "crash", id=D, cause="exit", message="it left", detail="one\ntwo\x1b[31m\n", seconds=1.0)
    lines = log.tell(feed)
    assert lines[:-3] == [
        "CRASH [1.0s] b.py::T::four  it left",
        "-> ::group::    its output: b.py::T::four",
        "    one",
        "    two\\x1b[31m",
        "-> ::endgroup::",
    ]
    assert lines[-3].startswith("-> ::group::b.py: 1 failed, 1 skipped in")
    assert lines[-2:] == ["  skipped: 1 test: not today", "-> ::endgroup::"]


def test_in_github_ten_failures_are_marked_and_the_others_are_counted() -> None:
    names = [f"a,b.py::T::t{number:02}" for number in range(14)]
    feed, log = Feed(small_state(shard(0, {"a,b.py": names}))), Log(github=True)
    feed.begin(0, "a,b.py")
    for name in names:
        feed.test(0, name, "failed", "50 % lost\nx")
    feed.test(0, names[0], "passed", number=2)
    log.tell(feed)
    before = len(log.written)
    log.view.end(feed.state, 99.0)
    marks = log.written[before:]
    # The first has passed since, so the ten begin with the second.
    assert marks[0] == (
        "-> ::error file=a%2Cb.py,title=a%2Cb.py%3A%3AT%3A%3At01::50 %25 lost x on card card:0"
    )
    assert len(marks) == 11
    assert marks[-1] == "3 more failures without an annotation: GitHub shows 10 a step"


def test_elsewhere_nothing_is_marked() -> None:
    feed, log = first_file(), Log()
    feed.test(0, B, "failed", "it broke")
    log.tell(feed)
    before = len(log.written)
    log.view.end(feed.state, 99.0)
    assert log.written[before:] == []


def drawn(feed: Feed, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    with console.capture() as captured:
        console.print(picture(feed.state, feed.now))
    return captured.get()


def terminal() -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, force_terminal=True, width=100, color_system=None), out


def test_the_picture_has_counts_rate_failures_cards_and_time_left() -> None:
    feed = Feed(small_state())
    feed.begin(0, "a.py")
    feed.test(0, A, "failed", "it broke")
    feed.event(0, "start", id=B)
    text = drawn(feed)
    for part in ("1/4", "0.2/s", "1 failed", "1 of 2 cards", "about 10 s left", "card:0 a.py"):
        assert part in text


def test_a_card_that_sets_up_or_is_long_at_a_test_says_so() -> None:
    feed = Feed(small_state())
    feed.event(0, "shard_start", attempt=1, card="card:0")
    feed.event(0, "group_start", file="a.py", tests=2)
    assert "card:0 a.py (setting up" in drawn(feed)
    feed.event(0, "start", id=A)
    feed.now += 50
    assert "card:0 a.py (one, 50 s)" in drawn(feed)


def test_names_are_no_markup_and_long_ones_do_not_break_the_lines() -> None:
    feed = Feed(small_state())
    feed.event(0, "shard_start", attempt=1, card="[red]" + "c" * 200)
    feed.event(0, "group_start", file="[/bold].py", tests=2)
    lines = drawn(feed, width=80).splitlines()
    assert len(lines) == 2
    assert "[red]ccc" in lines[1]


def test_failures_stay_above_the_bar() -> None:
    console, out = terminal()
    feed = Feed(small_state())
    view = Screen(console=console)
    view.begin(feed.state, 0.0)
    feed.begin(0, "a.py")
    feed.test(0, A, "failed", "[bold]it broke")
    feed.test(0, A, "passed", number=2)
    feed.event(0, "worker_lost", id=None, message="gone")
    for news in feed.news:
        view.tell(news, feed.state, feed.now)
    view.tick(feed.state, feed.now)
    view.end(feed.state, feed.now)
    view.end(feed.state, feed.now)
    text = out.getvalue()
    assert "FAIL [1.0s] a.py::T::one  [bold]it broke" in text
    assert "FLAKY [1.0s] a.py::T::one  passed in try 2" in text
    assert "LOST worker of shard 0  gone" in text


def test_what_scrolls_by_too_fast_is_counted() -> None:
    console, out = terminal()
    feed = Feed(small_state())
    view = Screen(console=console)
    view.begin(feed.state, 0.0)
    for _ in range(MAX_SHOWN + 7):
        feed.event(0, "worker_lost", id=None, message="gone")
    for news in feed.news:
        view.tell(news, feed.state, feed.now)
    view.end(feed.state, feed.now)
    assert out.getvalue().count("  gone") == MAX_SHOWN
    assert "7 more are not shown; the report has them all" in out.getvalue()
