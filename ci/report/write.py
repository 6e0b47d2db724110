"""Writing every report of a run into its folder; the same account gives the same bytes again."""

from __future__ import annotations

from pathlib import Path

from ci.record.identity import RunIdentity
from ci.report.html import render_html
from ci.report.junit_writer import write_junit
from ci.report.reconcile import Account
from ci.report.results import RESULTS_FILE, SUMMARY_FILE, write_results, write_summary
from ci.report.summary import render_markdown
from ci.report.totals import Estimates, Summary, summarize
from test_selection.files import write_text
from test_selection.op_map import FILE as OP_MAP
from test_selection.op_map import OpMap, make_op_map, write_op_map
from test_selection.selection import Selection

MARKDOWN_FILE = "summary.md"
PAGE_FILE = "report.html"
JUNIT_FOLDER = "junit"


def write_report(
    run_dir: Path,
    *,
    account: Account,
    identity: RunIdentity,
    selection: Selection,
    estimates: Estimates | None = None,
    allow_collect_errors: bool = False,
) -> Summary:
    """Write results, summary, JUnit files, Markdown and page of a run.

    What machines need is written first: should a page fail, the results are there.

    Args:
        run_dir: the folder of the run.
        account: every planned test's verdict.
        identity: who the run is.
        selection: what was chosen, and which files could not be collected.
        estimates: what the tests were expected to take.
        allow_collect_errors: whether files in scope may fail to collect.

    Returns:
        The summary, with the exit code.
    """
    if account.op_traces:
        write_op_map(run_dir / OP_MAP, op_map_of(account, identity))
    summary = summarize(
        account, identity, selection, estimates=estimates, allow_collect_errors=allow_collect_errors
    )
    write_results(run_dir / RESULTS_FILE, identity.run, account.results)
    write_summary(run_dir / SUMMARY_FILE, summary)
    write_junit(run_dir / JUNIT_FOLDER, account, identity)
    write_text(run_dir / MARKDOWN_FILE, render_markdown(summary, account))
    write_text(run_dir / PAGE_FILE, render_html(summary, account))
    return summary


def op_map_of(account: Account, identity: RunIdentity) -> OpMap:
    """What the tests of a run called."""
    return make_op_map(account.op_traces, pytorch=identity.pytorch_version, device=identity.device)


def append_once(path: Path, text: str) -> None:
    """Add a text to the CI's step summary, which other steps share; one that is there stays as it is."""
    there = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    if text not in there:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(text if not there or there.endswith("\n") else "\n" + text)
