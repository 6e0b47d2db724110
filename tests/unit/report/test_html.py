"""The page: whole, self-contained, bounded, and inert whatever tests call themselves."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.record.result import Result
from ci.record.timeline import GroupTiming, ShardTimeline
from ci.record.verdict import PROBLEMS, Verdict
from ci.report.html import LEAST, MAX_SEGMENTS, WIDTH, render_html, slowest_bars, time_chart, verdict_segments
from ci.report.reconcile import Account
from ci.report.totals import CollectError, Summary

from .conftest import HOSTILE, Golden, all_green

ANY = st.text(st.characters(exclude_categories=()), max_size=40)
VOID = {"meta", "rect"}


class Page(HTMLParser):
    """Every tag and attribute of a page, and whether tags close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.stack: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID or tag == "rect":
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture
def page(summary: Summary, account: Account) -> str:
    return render_html(summary, account)


def test_tags_close_in_order(page: str) -> None:
    assert Page(page).stack == []


def test_the_page_needs_nothing_from_outside(page: str) -> None:
    parsed = Page(page)
    assert {"script", "link", "img", "iframe", "object", "embed", "form"}.isdisjoint(parsed.tags)
    names = {name for name, _ in parsed.attributes}
    assert {"src", "srcset", "action", "style"}.isdisjoint(names)
    assert not [name for name in names if name.startswith("on")]
    assert [value for name, value in parsed.attributes if name == "href"] == ["https://ci.example/runs/7"]
    assert "url(" not in page
    assert "@import" not in page


def test_its_policy_forbids_scripts_and_requests(page: str) -> None:
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in page


def test_it_has_both_colour_schemes_and_fits_a_phone(page: str) -> None:
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport" content="width=device-width, initial-scale=1"' in page


def test_the_outcome_comes_first_and_then_what_could_not_be_collected(page: str) -> None:
    body = page[page.index("<body>") :]
    places = [
        body.index(text) for text in ("exit 3: 1 in-scope file", "ImportError: cannot", "planned tests")
    ]
    assert places == sorted(places)


def test_the_selection_order_is_told_and_its_remarks_are_no_markup(page: str) -> None:
    covered = "every file covered from 1.37 % of the tests, every op from 2.28 %, every template from 3.20 %"
    assert f"{covered}, every op-dtype pair from 14.00 %</p>" in page
    assert "relock `now` &lt;b&gt;</p>" in page


def test_every_share_is_told_by_count_and_by_seconds(page: str) -> None:
    for name in ("selected 11", "run 7", "passed 1"):
        told = page[page.index(f"{name} of 220 in scope (") :]
        assert "% of the seconds)" in told[: told.index(")") + 1]


def test_a_problem_shows_message_card_command_and_traceback(page: str) -> None:
    for text in (
        "1 failed (signal): SIGSEGV",
        "card <code>spyre:0</code>",
        "--device spyre -- &#39;test_a.py::TestA::test_crash[dtype=float32,op=kron]&#39; github-7.1</pre>",
        "frame 0\nframe 1</pre>",
    ):
        assert text in page


def test_a_declared_outcome_shows_its_reason(summary: Summary, account: Account) -> None:
    declared = Result(id="a", verdict=Verdict.FAILED, expectation="must pass since 2.13")
    assert "declared: must pass since 2.13" in render_html(summary, replace(account, results=(declared,)))


def test_hostile_text_is_inert(page: str) -> None:
    assert "<script" not in page
    assert "alert(1)" in page
    for character in ("\x1b", "\x00", "\udc80", "\u202e"):
        assert character not in page


@given(
    st.lists(
        st.builds(
            Result,
            id=ANY,
            verdict=st.sampled_from(Verdict),
            message=ANY,
            detail=ANY,
            card=ANY,
            file=ANY,
            cause=ANY,
        ),
        max_size=3,
    )
)
def test_any_text_makes_a_whole_page(results: list[Result]) -> None:
    account, summary = all_green()
    text = render_html(summary, replace(account, results=tuple(results)))
    parsed = Page(text)
    assert parsed.stack == []
    assert "script" not in parsed.tags
    text.encode()


@pytest.mark.parametrize("url", ["javascript:alert(1)", "", "data:text/html,x", " https://x"])
def test_only_web_addresses_become_links(summary: Summary, account: Account, url: str) -> None:
    text = render_html(replace(summary, identity=replace(summary.identity, url=url)), account)
    assert "href=" not in text


def test_a_user_name_in_the_address_of_the_run_is_not_shown(summary: Summary, account: Account) -> None:
    identity = replace(summary.identity, url="https://me:s3cret@ci.example/7")
    assert "s3cret" not in render_html(replace(summary, identity=identity), account)


def test_35000_failures_make_a_page_and_not_a_flood(summary: Summary, account: Account) -> None:
    results = tuple(
        Result(
            id=f"test_{number % 900}.py::T::test_{number}",
            verdict=list(Verdict)[number % 9],
            file=f"test_{number % 900}.py",
            seconds=number / 1000,
            attempts=2,
            message=f"AssertionError {number % 3000} " + HOSTILE,
            detail=HOSTILE * 500,
        )
        for number in range(35_000)
    )
    errors = tuple(CollectError(file=str(number), error=HOSTILE, detail=HOSTILE) for number in range(900))
    text = render_html(replace(summary, collect_errors=errors), replace(account, results=results))
    assert len(text.encode()) < 8 * 1024 * 1024
    for told in (
        "more kinds of problems in results.jsonl.gz",
        "3,869 more in results.jsonl.gz",
        "860 more files, with fewer problems, in results.jsonl.gz",
        "800 more in summary.json",
    ):
        assert told in text


def test_a_big_group_shows_a_few_tests_and_says_how_many_more(summary: Summary, account: Account) -> None:
    many = tuple(Result(id=f"t{number}", verdict=Verdict.FAILED, message="same") for number in range(105))
    text = render_html(summary, replace(account, results=many))
    assert text.count('<pre class="command"') == 5
    assert "100 more in results.jsonl.gz" in text


def test_a_green_page_has_no_problems_section(green: tuple[Account, Summary]) -> None:
    text = render_html(green[1], green[0])
    assert '<header class="good">' in text
    assert "Problems" not in text
    assert "Flaky" not in text


def test_the_holes_of_an_account_are_told(summary: Summary, account: Account) -> None:
    holes = replace(summary, unplanned=9, unplanned_ids=("z<",), foreign_journals=("0-2",))
    text = render_html(holes, account)
    assert "journals of another plan: 0-2" in text
    assert "reported and never planned (9)" in text
    assert "<code>z&lt;</code>" in text


def test_the_page_looks_as_agreed(green: tuple[Account, Summary], golden: Golden) -> None:
    golden("report/report-green.html", render_html(green[1], green[0]))


def test_text_from_a_journal_is_cleaned_wherever_it_stands(summary: Summary, account: Account) -> None:
    line = replace(account.timelines[0], status="\x1b[2J\x00", card="\u202e")
    text = render_html(summary, replace(account, timelines=(line,)))
    assert r"\x1b[2J\x00" in text
    for character in ("\x1b", "\x00", "\u202e"):
        assert character not in text


def test_what_a_test_left_behind_is_shown_and_is_text(summary: Summary, account: Account) -> None:
    left = Result(id="z", verdict=Verdict.PASSED, file="z.py", attempts=1, leak="process 7 (<script>)")
    text = render_html(summary, replace(account, results=(*account.results, left)))
    assert "Left processes or files behind (1)" in text
    assert "left behind: process 7 (&lt;script&gt;)" in text


COUNTS = st.dictionaries(st.sampled_from(Verdict), st.integers(0, 100_000))


@given(COUNTS)
def test_a_bar_is_full_and_without_gaps(counts: dict[Verdict, int]) -> None:
    segments = verdict_segments(counts)
    x = 0.0
    for one in segments:
        assert one.x == pytest.approx(x, abs=0.1)
        assert one.width >= 0
        x = one.x + one.width
    assert x == pytest.approx(WIDTH if any(counts.values()) else 0, abs=0.1)


@given(COUNTS)
def test_every_problem_can_be_seen(counts: dict[Verdict, int]) -> None:
    for one in verdict_segments(counts):
        if one.kind in PROBLEMS:
            assert one.width >= LEAST - 0.01


def test_bars_say_their_numbers() -> None:
    segments = verdict_segments({Verdict.PASSED: 3000, Verdict.NOT_RUN: 1})
    assert [one.title for one in segments] == ["3,000 passed", "1 not run"]


def test_the_longest_test_fills_its_bar() -> None:
    slow = [Result(id=str(seconds), verdict=Verdict.PASSED, seconds=seconds) for seconds in (8.0, 2.0)]
    assert [one.segments[0].width for one in slowest_bars(slow)] == [1000, 250]
    assert slowest_bars([]) == []


def test_set_up_is_shaded_and_the_expected_end_marked(account: Account) -> None:
    chart = time_chart(account, 9)
    assert chart is not None
    first = chart.bars[0]
    assert [(one.kind, one.x, one.width) for one in first.segments] == [
        ("setup", 0.0, 200.0),
        ("tests", 200.0, 200.0),
        ("setup", 400.0, 200.0),
        ("tests", 600.0, 250.0),
    ]
    assert (first.label, first.note, first.mark) == ("shard 0 on spyre:0", "17 s of 20 s expected", 1000.0)
    assert chart.bars[1].note == "10 s of 18 s expected, no end recorded"
    assert chart.ticks == ("0.0 s", "5.0 s", "10 s", "15 s", "20 s")


def test_a_run_without_journals_has_no_time_chart(account: Account) -> None:
    assert time_chart(replace(account, timelines=()), 9) is None


def lines(count: int, groups: int) -> tuple[ShardTimeline, ...]:
    busy = tuple(
        GroupTiming(file="a.py", setup_s=None, started_at=float(number), ended_at=number + 1.0)
        for number in range(groups)
    )
    return tuple(
        ShardTimeline(
            shard=shard,
            attempt=1,
            card=None,
            host="",
            started_at=0.0,
            ended_at=float(groups + shard),
            status="done",
            groups=busy,
        )
        for shard in range(count)
    )


def test_of_many_shards_those_that_ended_last_are_shown(account: Account) -> None:
    chart = time_chart(replace(account, timelines=lines(50, 1)), 20)
    assert chart is not None
    assert [one.label for one in chart.bars] == [f"shard {number}" for number in range(30, 50)]
    assert chart.hidden == 30


def test_a_second_attempt_is_named_and_has_no_expected_end(account: Account) -> None:
    second = replace(lines(1, 1)[0], attempt=2, status="interrupted")
    chart = time_chart(replace(account, timelines=(second,)), 20)
    assert chart is not None
    assert (chart.bars[0].label, chart.bars[0].mark) == ("shard 0, attempt 2", None)
    assert chart.bars[0].note == "1.0 s, interrupted"


def test_however_many_groups_there_are_the_chart_stays_bounded(account: Account) -> None:
    chart = time_chart(replace(account, timelines=lines(64, 500)), 64)
    assert chart is not None
    assert sum(len(bar.segments) for bar in chart.bars) <= MAX_SEGMENTS + 64
    assert chart.bars[0].segments[-1].title == "469 more files"
