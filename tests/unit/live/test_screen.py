from __future__ import annotations

import io

from rich.console import Console

from ci.live.screen import MAX_SHOWN, Screen, picture

from .small_states import A, B, Feed, small_state


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
    view = Screen(console=console, again=lambda name, _: f"again --id {name}")
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
    assert "failed on card card:0: a.py::T::one" in text
    assert "    [bold]it broke" in text
    assert "    again: again --id a.py::T::one" in text
    assert "a.py: attempt 2 on card card:0 passed, so flaky: a.py::T::one" in text
    assert "shard 0: worker lost: gone" in text


def test_what_scrolls_by_too_fast_is_counted() -> None:
    console, out = terminal()
    feed = Feed(small_state())
    view = Screen(console=console, again=lambda name, _: name)
    view.begin(feed.state, 0.0)
    for _ in range(MAX_SHOWN + 7):
        feed.event(0, "worker_lost", id=None, message="gone")
    for news in feed.news:
        view.tell(news, feed.state, feed.now)
    view.end(feed.state, feed.now)
    assert out.getvalue().count("worker lost: gone") == MAX_SHOWN
    assert "7 more are not shown; the report has them all" in out.getvalue()
