"""Failures told apart, in every report: upstream's, quarantined, and the rest."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ci.core.errors import BadFileError
from ci.record.failure_marks import Control, Quarantined
from ci.record.verdict import Verdict
from ci.report.aggregates import problem_groups, sections
from ci.report.html import render_html
from ci.report.junit_writer import ShardCases, write_suite
from ci.report.quarantine_note import EntryNote, QuarantineNote
from ci.report.reconcile import Account
from ci.report.results import read_results, read_summary, write_results, write_summary
from ci.report.summary import outcome_line, render_markdown
from ci.report.terminal import show_ending
from ci.report.totals import Summary, summarize

from .conftest import ADD, CRASH, FLAKY, HOSTILE, HOSTILE_ID, all_green, ending_lines, identity, selection

MARK = Quarantined(
    reason="sums in another order", issue="https://e.test/17", owner="@kernels", expires="2026-03-01",
    where="quarantine.yaml:2",
)  # fmt: skip
BOTH = Control(device="cpu", outcome="failed", message="AssertionError on cpu", detail="the text of the cpu")
ENTRY = EntryNote(
    where="quarantine.yaml:2", named=HOSTILE_ID, owner="@kernels", issue="https://e.test/17",
    expires="2026-03-01", state="holds", tests=1, failed=1,
)  # fmt: skip
OVER = replace(ENTRY, where="quarantine.yaml:9", state="expired", named="test_a.py::**")
NOTE = QuarantineNote(file="/x/quarantine.yaml", entries=(ENTRY, OVER), tests=1, forgiven=1)


@pytest.fixture
def marked(account: Account) -> Account:
    """CRASH is upstream's, the hostile test quarantined, the flaky one quarantined without need."""
    marks = {
        CRASH: {"control": BOTH},
        HOSTILE_ID: {"quarantine": MARK, "control": replace(BOTH, outcome="passed", message=HOSTILE)},
        FLAKY: {"quarantine": MARK},
    }
    results = tuple(replace(one, **marks.get(one.id, {})) for one in account.results)  # type: ignore[arg-type]  # fields of a result
    return replace(account, results=results, quarantine=NOTE, control="cpu")


@pytest.fixture
def told(marked: Account) -> Summary:
    return summarize(marked, identity(), selection())


def test_each_failure_stands_in_one_place(marked: Account) -> None:
    apart = sections(marked.results)
    assert [one.id for one in apart["upstream"].results] == [CRASH]
    assert [one.id for one in apart["forgiven"].results] == [HOSTILE_ID]
    assert apart["failed"].results == []
    assert Verdict.FAILED not in {one.verdict for one in problem_groups(marked.results)}


def test_what_is_quarantined_and_upstreams_is_told_as_quarantined(marked: Account) -> None:
    both = [replace(one, control=BOTH) for one in marked.results if one.id == HOSTILE_ID]
    assert [one.id for one in sections(both)["forgiven"].results] == [HOSTILE_ID]
    assert sections(both)["upstream"].results == []


def test_counts_and_reasons_tell_them_apart(told: Summary) -> None:
    assert (told.upstream, told.control, told.verdicts[Verdict.FAILED]) == (1, "cpu", 2)
    assert told.reasons[-2:] == (
        "1 test failed, on cpu too", "1 quarantine entry expired (quarantine.yaml:9)",
    )  # fmt: skip


def test_marks_come_back_from_files(tmp_path: Path, marked: Account, told: Summary) -> None:
    write_results(tmp_path / "r.jsonl.gz", "r", marked.results)
    assert read_results(tmp_path / "r.jsonl.gz") == list(marked.results)
    write_summary(tmp_path / "s.json", told)
    assert read_summary(tmp_path / "s.json").quarantine == NOTE
    text = (tmp_path / "s.json").read_text()
    (tmp_path / "s.json").write_text(text.replace('"entries":', '"entires":'))
    with pytest.raises(BadFileError):
        read_summary(tmp_path / "s.json")


def test_a_quarantined_failure_is_an_xfail_to_readers_of_junit_and_keeps_its_text(marked: Account) -> None:
    stream = io.BytesIO()
    write_suite(stream, ShardCases(0, "", 0.0, list(marked.results)), identity())
    cases = {one.get("name"): one for one in ET.fromstring(stream.getvalue()).iter("testcase")}  # noqa: S314  # made here
    crash = cases["test_crash[dtype=float32,op=kron]"]
    error = crash.find("error")
    assert error is not None
    assert error.get("message") == "on cpu too: SIGSEGV"
    assert str(error.text).startswith("frame 0\nframe 1\n\non cpu:\nthe text of the cpu\n\nreproduce: ")
    assert "upstream: yes\ncontrol: cpu: failed: AssertionError on cpu" in str(crash.findtext("system-out"))
    skipped = next(one for name, one in cases.items() if name and "<script>" in name)
    child = skipped.find("skipped")
    assert child is not None
    assert child.get("type") == "pytest.xfail"
    assert str(child.get("message")).startswith(
        "quarantined: sums in another order (https://e.test/17, @kernels, until 2026-03-01): "
    )
    assert "Traceback" in str(child.text)
    assert "verdict: failed" in str(skipped.findtext("system-out"))
    assert cases["test_flaky"].find("rerun") is not None
    assert all(len(one.findall(".//property")) == 1 for one in cases.values())


def test_the_markdown_has_a_table_for_each(marked: Account, told: Summary) -> None:
    text = render_markdown(told, marked)
    assert "### Failed on cpu too: upstream's (1)" in text
    assert "| test | cause | card | message | control |" in text
    assert "`cpu: failed: AssertionError on cpu`" in text
    assert "the text of the cpu" in text
    assert "### Failed in quarantine (1)" in text
    assert "| test | cause | card | message | control | quarantined |" in text
    assert "### Failed (" not in text
    assert "has expired: fix the test, or give the entry a later date" in text


def test_the_page_has_a_section_for_each(marked: Account, told: Summary) -> None:
    text = render_html(told, marked)
    assert 'id="upstream">Failed on cpu too: upstream&#39;s (1)</h2>' in text
    assert 'id="forgiven">Failed in quarantine (1)</h2>' in text
    assert "the text of the cpu" in text
    assert '<a href="https://e.test/17" rel="noreferrer">issue</a>' in text
    assert 'id="quarantine">Quarantine</h2>' in text
    assert "<script>" not in text


def test_an_issue_that_is_no_web_address_is_no_link(marked: Account, told: Summary) -> None:
    odd = tuple(
        replace(one, quarantine=replace(MARK, issue="javascript:alert(1)")) if one.quarantine else one
        for one in marked.results
    )
    assert "javascript" not in render_html(told, replace(marked, results=odd))


def test_the_ending_has_a_section_for_each(marked: Account, told: Summary) -> None:
    lines = ending_lines(told, marked)
    assert "failed on cpu too: upstream's (1)" in lines
    assert any("; on cpu: failed: AssertionError on cpu" in line for line in lines)
    assert "failed in quarantine (1)" in lines
    assert "1 test quarantined, 1 of them failed" in "\n".join(lines)
    assert "\x1b" not in "".join(lines)
    drawn = io.StringIO()
    show_ending(Console(force_terminal=True, file=drawn), told, marked)
    assert "upstream's" in drawn.getvalue()


def test_a_green_run_names_its_quarantined_failures() -> None:
    account, green = all_green()
    one = replace(account.results[0], verdict=Verdict.FAILED, quarantine=MARK)
    made = replace(account, results=(one, *account.results[1:]), quarantine=NOTE)
    said = outcome_line(replace(green, quarantine=NOTE))
    assert said == "exit 0: 2 tests, nothing failed but 1 quarantined test, nothing is missing"
    assert made.failures.forgiven == 1


def test_a_quarantine_that_could_not_be_read_is_told(account: Account) -> None:
    note = QuarantineNote(file="q", entries=(), error="q:3: unknown key\n  remedy: fix it")
    made = replace(account, quarantine=note)
    summary = summarize(made, identity(), selection())
    assert "nothing is quarantined: q:3: unknown key remedy: fix it" in render_markdown(summary, made)
    assert ADD in {one.id for one in made.results}
