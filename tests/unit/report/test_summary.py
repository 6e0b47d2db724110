"""The Markdown summary: first things first, bounded, and inert whatever tests call themselves."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.reconcile import Account
from ci.report.summary import code, fence, outcome_line, render_markdown, share_line
from ci.report.totals import CollectError, Share, Summary

from .conftest import Golden

ANY = st.text(st.characters(exclude_categories=()), max_size=40)
PUNCTUATION = st.text("`|\\<>&*_[]()!#@~:-\n ab", max_size=20)
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")


@pytest.mark.parametrize(
    ("percent", "why"),
    [(0.0, "as 0 % was requested"), (5.0, "others ran this one's")],
    ids=["stage 0", "shared"],
)
def test_what_ran_nothing_says_why(summary: Summary, percent: float, why: str) -> None:
    identity = replace(summary.identity, percent=percent)
    nothing = replace(summary, planned=0, reasons=(), exit_code=0, identity=identity)
    assert outcome_line(nothing) == f"exit 0: no tests, {why}"


def test_collection_errors_stand_before_everything_else_with_the_error_first(
    summary: Summary, account: Account
) -> None:
    text = render_markdown(
        replace(summary, collect_errors=(CollectError(file="x.py", error="E: y"),)), account
    )
    assert "- `E: y`: `x.py`" in text
    assert text.index("### Could not be collected (1)") < text.index("| verdict | tests |")


def test_holes_are_told(summary: Summary, account: Account) -> None:
    ids = tuple(f"z{number}" for number in range(7))
    text = render_markdown(replace(summary, unplanned=7, unplanned_ids=ids), account)
    assert "1 journal line torn or malformed" in text
    assert "without a journal: shards 2\n" in text
    assert "reported and never planned: `z0`, `z1`, `z2`, `z3`, `z4`…" in text


def test_shares_are_told_by_count_and_by_seconds() -> None:
    share = Share(count=5, of_count=0.05, seconds=1, of_seconds=0.048)
    assert share_line("run", share, 100) == "run 5 of 100 in scope (5.0 %; 4.8 % of the seconds)"
    assert share_line("run", Share(count=5), 0) == "run 5"


def test_a_file_that_failed_to_import_in_the_run_is_listed(summary: Summary, account: Account) -> None:
    broken = (CollectError(file="x.py", error="ImportError: y"),)
    text = render_markdown(replace(summary, file_errors=broken), account)
    assert "### Could not be imported on the worker (1)\n\n- `ImportError: y`: `x.py`" in text


def test_however_much_failed_the_summary_stays_below_githubs_limit(
    summary: Summary, account: Account
) -> None:
    results = tuple(
        Result(
            id=f"{number}" + "|" * 5000,
            verdict=verdict,
            file=f"{number}.py",
            message="|" * 5000,
            detail="`" * 99_999,
            card="spyre:0",
        )
        for verdict in (
            Verdict.FAILED,
            Verdict.FLAKY,
            Verdict.HARDWARE,
            Verdict.INFRASTRUCTURE,
            Verdict.NOT_RUN,
        )
        for number in range(300)
    )
    errors = tuple(CollectError(file="|" * 5000, error="|" * 5000) for _ in range(900))
    text = render_markdown(
        replace(summary, collect_errors=errors, file_errors=errors), replace(account, results=results)
    )
    assert len(text.encode()) < 1024 * 1024
    assert "850 more in `results.jsonl.gz`" in text
    assert text.endswith("Left out here for its size; see `report.html`.\n")


def test_a_long_list_is_cut_and_says_where_the_rest_is(summary: Summary, account: Account) -> None:
    many = tuple(Result(id=str(number), verdict=Verdict.FAILED, file="a.py") for number in range(1050))
    text = render_markdown(summary, replace(account, results=many))
    assert "1,000 more in `results.jsonl.gz`" in text
    assert "<summary>Reproduce (the first 15)</summary>" in text


@pytest.mark.parametrize(
    ("dirty", "shown"),
    [
        ("a.py::T", "`a.py::T`"),
        ("", "`-`"),
        ("a|b_", "<code>a&#124;b&#95;</code>"),
        ("`@", "<code>&#96;<span>&#64;</span></code>"),
        ("<b>\n", "`<b>`"),
    ],
)
def test_untrusted_text_becomes_code(dirty: str, shown: str) -> None:
    assert code(dirty) == shown


@given(st.lists(st.one_of(ANY, PUNCTUATION), min_size=1, max_size=4))
def test_nothing_in_a_table_cell_ends_it_or_makes_markup(cells: list[str]) -> None:
    columns = len(cells)
    lines = ["|" + " x |" * columns, "|" + "---|" * columns, "| " + " | ".join(map(code, cells)) + " |"]
    html = MARKDOWN.render("\n".join(lines))
    assert html.count("<td>") == columns
    assert set(re.findall(r"</?([a-zA-Z]+)", html)) <= {
        *("table", "thead", "tbody", "tr", "th", "td"),
        *("code", "span"),
    }


@given(st.one_of(ANY, PUNCTUATION))
def test_nothing_in_a_block_ends_it(text: str) -> None:
    safe = text.encode("utf-8", "replace").decode().replace("\r", "").replace("\0", "")
    html = MARKDOWN.render(f"{fence(safe)}\n\nafter")
    assert html.endswith("</code></pre>\n<p>after</p>\n")


def test_the_summary_looks_as_agreed(
    summary: Summary, account: Account, green: tuple[Account, Summary], golden: Golden
) -> None:
    golden("report/summary.md", render_markdown(summary, account))
    golden("report/summary-green.md", render_markdown(green[1], green[0]))


def test_a_test_that_passed_only_after_a_lost_try_is_shown(summary: Summary, account: Account) -> None:
    message = "attempt 1: infrastructure: pod evicted; attempt 2: passed"
    again = Result(id="z", verdict=Verdict.PASSED, file="z.py", attempts=2, message=message)
    text = render_markdown(summary, replace(account, results=(*account.results, again)))
    assert "### Ran again after a lost attempt (1)" in text
    assert f"| `z` | `-` | `-` | `{message}` |" in text


@pytest.mark.parametrize("text", ["```\nx", "`````", "a\n````\n```"])
def test_a_block_has_a_longer_fence_than_any_in_it(text: str) -> None:
    html = MARKDOWN.render(f"{fence(text)}\n\nafter")
    assert html == f'<pre><code class="language-text">{text}\n</code></pre>\n<p>after</p>\n'


def test_what_a_test_left_behind_is_shown(summary: Summary, account: Account) -> None:
    left = Result(id="z", verdict=Verdict.PASSED, file="z.py", attempts=1, leak="process 7 (sleep)")
    text = render_markdown(summary, replace(account, results=(*account.results, left)))
    assert "### Left processes or files behind (1)" in text
    assert "| `z` | `-` | `-` | `process 7 (sleep)` |" in text
    assert "### Left processes or files behind" not in render_markdown(summary, account)
