"""Reporting a run from the files of its folder: account, reports, history, HUD, and the closing table."""

from __future__ import annotations

import random
import time

from ci.hud.deliver import deliver
from ci.report.history import export_durations, record
from ci.report.identity import read_identity
from ci.report.reconcile import reconcile
from ci.report.terminal import show_report
from ci.report.write import write_report
from ci.runner.journal import read_journals
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from test_selection.durations import Durations
from test_selection.plan import read_plan
from test_selection.selection import read_selection


def past_durations(context: Context) -> Durations:
    """The seconds earlier runs took, for the planner; empty before the first run."""
    path = context.state(str(context.settings.model.history.path))
    return export_durations(path) if path.is_file() else Durations()


def report_step(
    context: Context, folder: RunFolder, *, allow_collect_errors: bool, interrupted: bool = False
) -> int:
    """Write every report of a run and return its exit code.

    Args:
        context: the outside world.
        folder: with plan, selection, identity and whatever journals there are.
        allow_collect_errors: whether files in scope may fail to collect.
        interrupted: the run was ended early.

    Raises:
        SpyreCiError: a file of the run folder is missing or broken.
    """
    plan, selection = read_plan(folder.plan), read_selection(folder.selection)
    identity = read_identity(folder.path)
    expectations = {name: one.reason for name, one in selection.expectations.items()}
    account = reconcile(
        plan, read_journals(folder.path), expectations=expectations, interrupted=interrupted
    )
    summary = write_report(
        folder.path,
        account=account,
        identity=identity,
        selection=selection,
        allow_collect_errors=allow_collect_errors,
        step_summary=context.provider.step_summary,
    )
    return 0
