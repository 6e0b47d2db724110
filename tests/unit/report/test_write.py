"""Writing a run's reports: all of them, the same bytes again, and the CI's page once."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

from hypothesis import given

from ci.core.text import iso_utc
from ci.record import events
from ci.record.excerpts import Excerpts
from ci.record.journal import Journal, JournalWriter, journal_path, read_journal
from ci.report.html import render_html
from ci.report.junit_writer import ShardCases, shard_cases, write_suite
from ci.report.reconcile import Account, reconcile
from ci.report.results import read_results
from ci.report.summary import render_markdown
from ci.report.totals import Summary, summarize
from ci.report.write import append_once, write_report
from test_selection.plan import Group, Shard

from .any_journals import PLAN, journals_of
from .conftest import ending_lines, identity, selection


def write(folder: Path, account: Account) -> Summary:
    return write_report(folder, account=account, identity=identity(), selection=selection())


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_writing_again_gives_the_same_bytes(tmp_path: Path, account: Account) -> None:
    write(tmp_path, account)
    once = contents(tmp_path)
    write(tmp_path, account)
    assert contents(tmp_path) == once


def test_the_cis_page_gets_the_summary_once_beside_what_others_wrote(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("from another step")
    for _ in range(2):
        append_once(page, "our summary\n")
    assert page.read_text() == "from another step\nour summary\n"


def test_the_cis_page_is_made_where_it_is_not_there(tmp_path: Path) -> None:
    append_once(tmp_path / "page.md", "x\n")
    assert (tmp_path / "page.md").read_text() == "x\n"


def _tests_in(cases: ShardCases) -> int:
    stream = io.BytesIO()
    write_suite(stream, cases, identity())
    suite = ET.fromstring(stream.getvalue())  # noqa: S314  # written here
    assert len(suite.findall("testcase")) == int(suite.attrib["tests"])
    return int(suite.attrib["tests"])


@given(journals_of())
def test_whatever_the_journals_hold_every_report_can_be_made(journals: list[Journal]) -> None:
    account = reconcile(PLAN, journals)
    summary = summarize(account, identity(), selection())
    assert sum(_tests_in(cases) for cases in shard_cases(account, identity())) == len(PLAN.ids)
    for text in (
        render_markdown(summary, account),
        render_html(summary, account),
        "\n".join(ending_lines(summary, account)),
    ):
        assert f"exit {summary.exit_code}" in text
        assert iso_utc(summary.completed_at)


def test_without_a_cis_page_none_is_written(tmp_path: Path, account: Account) -> None:
    write(tmp_path, account)
    assert not list(tmp_path.glob("page*"))


def test_every_id_stands_in_results_and_junit_however_much_of_its_text_was_cut(tmp_path: Path) -> None:
    ids = tuple(f"a.py::T::t{number}" for number in range(50))
    shard = Shard(index=0, expected_s=1, groups=(Group(file="a.py", ids=ids),))
    path = journal_path(tmp_path, 0, 1)
    writer = JournalWriter(path, lambda: 1.0)
    writer.write(events.ShardStart(fingerprint="f"))
    for name in ids:
        writer.write(events.Start(id=name))
        writer.write(
            events.End(id=name, outcome="failed", message="boom", detail="x" * 30_000 + f"\nend of {name}")
        )
    writer.write(events.ShardEnd(status="done"))
    writer.close()
    account = reconcile(replace(PLAN, shards=(shard,)), [read_journal(path, 0, 1, Excerpts(room=40_000))])
    write(tmp_path, account)
    found = read_results(tmp_path / "results.jsonl.gz")
    assert [one.id for one in found] == list(ids)
    assert all(one.detail.endswith(f"end of {one.id}") for one in found)
    assert all("the full text is in journal/0-1.jsonl" in one.detail for one in found)
    cases = list(ET.parse(tmp_path / "junit" / "0.xml").iter("testcase"))  # noqa: S314  # our own file
    assert [one.get("name") for one in cases] == [name.rpartition("::")[2] for name in ids]
    assert all(f"end of {name}" in str(one.findtext("failure")) for name, one in zip(ids, cases, strict=True))
