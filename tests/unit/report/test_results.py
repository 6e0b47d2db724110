"""The two files for machines, and the totals in them."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from ci.core.errors import BadFileError, MissingInputError
from ci.report.html import render_html
from ci.report.reconcile import Account
from ci.report.results import read_results, read_summary, write_results, write_summary
from ci.report.summary import render_markdown
from ci.report.totals import Estimates, Share, Summary, summarize

from .conftest import identity, selection


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in gzip.open(path, "rt")]


def test_results_are_read_back_as_they_were(tmp_path: Path, account: Account) -> None:
    path = tmp_path / "results.jsonl.gz"
    write_results(path, "r", account.results)
    assert tuple(read_results(path)) == account.results


def test_results_that_were_cut_are_refused(tmp_path: Path, account: Account) -> None:
    path = tmp_path / "results.jsonl"
    write_results(tmp_path / "x.gz", "r", account.results)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(tmp_path / "x.gz")[:5]))
    with pytest.raises(BadFileError, match="holds 4 results, not 11"):
        read_results(path)


def test_a_verdict_nobody_knows_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text('{"schema": "spyre-ci/results/1", "planned": 1}\n{"id": "a", "verdict": "great"}\n')
    with pytest.raises(BadFileError, match=r"results\.jsonl:2: .*great"):
        read_results(path)


def test_the_summary_is_read_back_as_it_was(tmp_path: Path, summary: Summary) -> None:
    path = tmp_path / "summary.json"
    rounded = {
        name: replace(
            share, of_seconds=round(share.of_seconds or 0, 6), of_count=round(share.of_count or 0, 6)
        )
        for name, share in summary.shares.items()
    }
    write_summary(path, summary)
    assert read_summary(path) == replace(summary, shares=rounded)


def test_the_reasons_put_files_that_did_not_collect_first(summary: Summary) -> None:
    assert summary.reasons == (
        "1 in-scope file could not be collected",
        "1 shard without a journal",
        "1 test met a fault of the card",
        "1 test lost to infrastructure",
        "2 tests not run",
        "2 tests failed",
    )


def test_shares_are_against_the_tests_in_scope_by_count_and_by_seconds(summary: Summary) -> None:
    assert summary.shares == {
        "selected": Share(count=11, of_count=11 / 220, seconds=22.0, of_seconds=22 / 440),
        "run": Share(count=7, of_count=7 / 220, seconds=14.0, of_seconds=14 / 440),
        "passed": Share(count=1, of_count=1 / 220, seconds=2.0, of_seconds=2 / 440),
    }


def test_shares_without_estimates_or_scope_say_so(account: Account) -> None:
    unknown = summarize(account, identity(), replace(selection(), in_scope=0)).shares["selected"]
    assert unknown == Share(count=11)


def test_collection_errors_can_be_allowed(account: Account) -> None:
    allowed = summarize(account, identity(), selection(), allow_collect_errors=True)
    assert "could not be collected" not in " ".join(allowed.reasons)
    assert len(allowed.collect_errors) == 1


def test_a_run_without_any_journal_completes_when_it_started(account: Account) -> None:
    empty = summarize(replace(account, timelines=()), identity(), selection())
    assert (empty.completed_at, empty.wall_s) == (identity().started_at, 0)


def test_a_summary_without_a_key_is_refused(tmp_path: Path, summary: Summary) -> None:
    path = tmp_path / "summary.json"
    write_summary(path, summary)
    content = json.loads(path.read_text())
    del content["verdicts"]["flaky"]
    path.write_text(json.dumps(content))
    with pytest.raises(BadFileError, match="flaky"):
        read_summary(path)


def test_a_missing_summary_is_a_missing_input(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="there is no summary file"):
        read_summary(tmp_path / "summary.json")


def test_what_the_bucket_moves_counts_as_selected_and_is_told_in_every_report(
    tmp_path: Path, account: Account
) -> None:
    moved = {"nightly": {f"test_far.py::T::test_{number}": "needs 2 cards" for number in range(33)}}
    split = replace(selection(), bucket="pr", moved=moved, in_scope_s=440.0, selected_s=110.0)
    summary = summarize(account, identity(), split, estimates=Estimates(in_scope_s=440.0, tests={}))
    selected = summary.shares["selected"]
    assert selected == Share(count=44, of_count=44 / 220, seconds=110.0, of_seconds=110 / 440)
    assert summary.planned == 11
    write_summary(tmp_path / "summary.json", summary)
    assert read_summary(tmp_path / "summary.json").bucket == summary.bucket
    said = "tier pr: 11 of 44 selected tests run, 33 move to the nightly tier"
    assert said in render_html(summary, account)
    assert said in render_markdown(summary, account)


def test_the_summary_knows_cards_seconds_in_scope_and_the_time_to_the_first_failure(summary: Summary) -> None:
    assert (summary.cards, summary.in_scope_s) == (2, 440.0)
    assert summary.first_failure_s == 6.0


def test_cards_of_two_hosts_may_have_one_name(account: Account) -> None:
    lines = tuple(replace(line, host=f"host-{number}") for number, line in enumerate(account.timelines))
    same = tuple(replace(line, card="spyre:0") for line in lines)
    results = tuple(replace(one, card=None) for one in account.results)
    moved = replace(account, timelines=same, results=results)
    assert summarize(moved, identity(), selection()).cards == 2
    none = replace(moved, timelines=())
    assert summarize(none, identity(), selection()).cards == 0


def test_a_run_without_a_failure_has_no_first_one(green: tuple[Account, Summary]) -> None:
    _, summary = green
    assert (summary.first_failure_s, summary.in_scope_s) == (None, None)
