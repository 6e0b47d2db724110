from __future__ import annotations

from dataclasses import dataclass, field

from ci.live.lines import MAX_ASIDES, Lines
from ci.live.news import MAX_HELD, News
from ci.live.state import State

from .small_states import A, B, C, D, Feed, shard, small_state


@dataclass(kw_only=True)
class Log:
    """A view whose lines are kept; commands to GitHub are marked by an arrow."""

    github: bool = False
    written: list[str] = field(default_factory=list)
    view: Lines = field(init=False)

    def __post_init__(self) -> None:
        self.view = Lines(
            say=self.written.append,
            again=lambda name, _: f"again --id {name}",
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


def test_failures_stand_below_their_file_with_reason_card_and_command() -> None:
    feed, log = first_file(), Log()
    feed.event(0, "start", id=B)
    feed.event(0, "crash", id=B, cause="signal", message="died by SIGSEGV", detail="stack", seconds=1.0)
    assert log.tell(feed)[1:] == [
        "  failed (signal) on card card:0: a.py::T::two",
        "    died by SIGSEGV",
        "    again: again --id a.py::T::two",
    ]


def test_a_file_with_a_thousand_failures_shows_some_and_counts_the_others() -> None:
    names = [f"a.py::T::t{number}" for number in range(1000)]
    feed, log = Feed(small_state(shard(0, {"a.py": names}))), Log()
    feed.begin(0, "a.py")
    for name in names:
        feed.test(0, name, "failed", "it broke")
    lines = log.tell(feed)
    assert len(lines) == 1 + 3 * MAX_HELD + 1
    assert lines[-1] == f"  and {1000 - MAX_HELD} more of a.py; the report has them all"


def test_what_is_run_again_after_its_file_has_a_line_of_its_own() -> None:
    feed, log = first_file(), Log()
    feed.test(0, B, "failed", "it broke")
    log.tell(feed)
    feed.test(1, B, "passed", number=2)
    assert log.tell(feed) == ["a.py: attempt 2 passed, so flaky: a.py::T::two"]
    feed.test(0, B, "failed", "broke again", number=3)
    assert log.tell(feed) == ["a.py: attempt 3 on card card:0 failed again: a.py::T::two: broke again"]


def test_what_was_flaky_before_its_file_ended_is_told_as_such() -> None:
    feed, log = Feed(small_state()), Log()
    feed.begin(0, "a.py")
    feed.test(0, A, "failed", "it broke")
    feed.test(0, A, "passed", number=2)
    feed.test(0, B, "passed")
    assert log.tell(feed)[1] == "  flaky, once failed on card card:0: a.py::T::one"


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
    feed.event(0, "start", id=A)
    feed.event(0, "worker_lost", id=A, message="the worker on card:0 died by SIGKILL")
    feed.event(0, "card_lost", card="card:0", message="lost 2 times")
    feed.event(0, "file_error", file="b.py", message="ImportError: x")
    assert log.tell(feed) == [
        "shard 0: worker lost while it ran a.py::T::one: the worker on card:0 died by SIGKILL",
        "card card:0 is lost for this run: lost 2 times",
        "b.py: could not be set up on card card:0: ImportError: x",
    ]


def test_troubles_without_end_do_not_fill_the_log() -> None:
    feed, log = Feed(small_state()), Log()
    for _ in range(MAX_ASIDES + 5):
        feed.event(0, "worker_lost", id=None, message="gone")
    log.tell(feed)
    log.view.end(feed.state, 1.0)
    assert len(log.written) == MAX_ASIDES + 1
    assert log.written[-1] == "5 more such lines are left out; the report has them all"


def test_tests_given_up_say_why_below_their_file() -> None:
    feed, log = Feed(small_state()), Log()
    lines = log.news(feed.state.finish(1.0, interrupted=True), feed.state, 1.0)
    assert lines[0] == "a.py: 2 not run (4 of 4, 0 failed, 4 not run)"
    assert lines[1] == "  not run: 2 tests: interrupted before it was started"


def test_in_github_a_good_files_details_are_folded_and_a_failing_ones_are_not() -> None:
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
    assert lines[0].startswith("b.py: 1 failed, 1 skipped in")
    assert lines[1:] == [
        "  skipped: 1 test: not today",
        "  failed (exit) on card card:1: b.py::T::four",
        "    it left",
        "    again: again --id b.py::T::four",
        "-> ::group::    what it said: b.py::T::four",
        "    one",
        "    two\\x1b[31m",
        "-> ::endgroup::",
    ]


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
