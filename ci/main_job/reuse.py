"""Taking another run's plan and journals into a run folder: the tests and the judging are this run's."""

from __future__ import annotations

import shutil
from pathlib import Path

from ci.core.errors import SpyreCiError, UsageError
from ci.record.environment import all_in
from ci.record.identity import read_identity
from ci.record.journal import read_journals
from ci.report.reconcile import reconcile
from ci.report.reused import Reused, write_reused
from ci.report.totals import summarize
from ci.steps.context import Context
from ci.steps.folder import JOURNALS, RunFolder
from ci.steps.mark_failures import mark_step
from test_selection.plan import read_plan, write_plan
from test_selection.selection import read_selection


def doubt_of_results(context: Context, folder: RunFolder, other: Path) -> str:
    """Why another run's journals do not make this run green; empty where they do.

    The other's plan deals the same tests to shards, but seldom the same way: its journals are read by it.

    Args:
        context: the outside world.
        folder: of this run, which is planned and has not begun.
        other: with the other's plan and journals.

    Raises:
        SpyreCiError: a file of this run's folder is missing or broken.
    """
    wanted, selection = read_plan(folder.plan), read_selection(folder.selection)
    try:
        plan = read_plan(RunFolder(path=other).plan)
    except SpyreCiError as error:
        return f"has no plan that can be read: {error.what}"
    if sorted(plan.ids) != sorted(wanted.ids):
        return "planned other tests than it says"
    identity = read_identity(folder.path)
    account = reconcile(plan, read_journals(other))
    if not all_in(identity.image, account.ran_in):
        return "did not run all of its tests in the required image, or does not record its image"
    account = mark_step(context, account, plan, folder, began_at=identity.started_at)
    summary = summarize(account, identity, selection)
    return "" if summary.exit_code == 0 else f"does not pass here: {'; '.join(summary.reasons)}"


def take_results(folder: RunFolder, other: Path, reused: Reused) -> None:
    """Copy another run's plan and journals into this run's folder, with a note of where they are from.

    Raises:
        UsageError: the run has begun.
    """
    journals = folder.path / JOURNALS
    if journals.exists():
        raise UsageError(
            "the run has already started, so it takes no results of another",
            where=folder.path,
            remedy="let it finish",
        )
    # The note first: journals without it would pass for this run's own.
    write_reused(folder.path, reused)
    coming = folder.path / f".{JOURNALS}.coming"
    shutil.rmtree(coming, ignore_errors=True)
    shutil.copytree(other / JOURNALS, coming)
    write_plan(folder.plan, read_plan(RunFolder(path=other).plan))
    coming.rename(journals)
