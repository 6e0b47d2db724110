"""Reporting a run from the files of its folder: account, reports, history, HUD, and the closing table."""

from __future__ import annotations

import contextlib
import random
import shlex
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ci.core import interrupts
from ci.core.errors import EXIT_INTERRUPTED, BadFileError, SpyreCiError
from ci.hud.delivery import Effects
from ci.hud.runs import ReportedRun, record_run
from ci.hud.send import Reporter, begin, give_up, report_run
from ci.record.environment import as_it_ran, differences
from ci.record.identity import RunIdentity, read_identity
from ci.record.journal import each_journal, gathered_journals
from ci.report.junit_writer import write_junit
from ci.report.live.events import Sink, run_end
from ci.report.reconcile import (
    Account,
    fold_journals,
    plan_without_shards,
    reconcile,
    replay_all,
    what_ran_here,
)
from ci.report.released import read_releases
from ci.report.results import SUMMARY_FILE
from ci.report.reused import read_reused
from ci.report.store import open_kept
from ci.report.summary import outcome_line
from ci.report.terminal import show_ending
from ci.report.totals import Estimates, Summary, summarize
from ci.report.write import JUNIT_FOLDER, MARKDOWN_FILE, append_once, op_map_of, write_report
from ci.runner.environment_info import back_end_of
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from ci.steps.mark_failures import mark_step
from ci.store.prune import prune_daily
from test_selection.durations import read_durations
from test_selection.files import collector_paused, read_json
from test_selection.plan import Plan, Shard, read_plan
from test_selection.selection import Selection, read_selection


def report_step(
    context: Context,
    folder: RunFolder,
    *,
    allow_collect_errors: bool,
    interrupted: bool = False,
    goes_on: bool = False,
    image: str = "",
) -> Summary:
    """Write every report of a run, tell HUD, and return the run's summary.

    Args:
        context: the outside world.
        folder: with plan, selection, identity and whatever journals there are.
        allow_collect_errors: whether files in scope may fail to collect.
        interrupted: the run was ended early.
        goes_on: it has no end yet: the reports say what there is of it, and neither HUD, the history nor the
            CI's page hears of it before it ends.
        image: its tests were to run in, name@sha256:…; empty: the identity says it.

    Raises:
        SpyreCiError: a file of the run folder is missing or broken.
    """
    # A second Ctrl-C, or the CI's SIGTERM after its first, waits for the account of the interrupted run.
    with interrupts.noted() if interrupted else contextlib.nullcontext(), collector_paused():
        plan, selection, unreadable = _what_was_to_run(folder)
        # What was said only after collecting began the run.
        identity = replace(
            read_identity(folder.path), stage=selection.stage, percent=selection.percent, seed=plan.run_seed
        )
        if image:
            identity = replace(identity, image=image)
        expectations = {name: one.reason for name, one in selection.expectations.items()}
        # Before the journals, as what it reads is as large as they are, and let go of.
        estimates = _estimates(context, plan, selection, folder)
        # Where no journal is, every shard is missing.
        journals, states = fold_journals(each_journal(folder.path), interrupted=interrupted)
        account = reconcile(plan, journals, expectations=expectations, interrupted=interrupted, states=states)
        del journals, states
        account = mark_step(context, account, plan, folder, began_at=identity.started_at)
        reused = read_reused(folder.path)
        account = replace(
            account,
            notes=(
                *(() if reused is None else (reused.said(),)),
                *account.notes,
                *differences(identity, account.ran_in),
            ),
            unreadable=(*unreadable, *account.unreadable),
        )
        identity = as_it_ran(identity, account.ran_in)
        summary = write_report(
            folder.path,
            account=account,
            identity=identity,
            selection=selection,
            estimates=estimates,
            allow_collect_errors=allow_collect_errors,
        )
        if not goes_on:
            _tell_provider(context, folder)
        if reused is None and not goes_on:  # another run's seconds are in the history, or its own to tell
            _remember(context, folder, account, cancelled=interrupted)
        _show_ending(context, summary, account, folder.report)
    if goes_on:
        return summary
    report_run(folder.path, _reporter(context, context.detail, cancelled=interrupted))
    return summary


def _reporter(context: Context, echo: Callable[[str], None], *, cancelled: bool = False) -> Reporter:
    return Reporter(
        settings=context.settings,
        environ=context.environ,
        effects=Effects(clock=context.clock, sleep=time.sleep, rng=random.SystemRandom().random),
        echo=echo,
        cancelled=cancelled,
    )


@contextlib.contextmanager
def told_hud(context: Context, folder: RunFolder) -> Iterator[None]:
    """Tell HUD that a dispatched run begins; and that it ends, where it comes to no report."""
    reporter = _reporter(context, context.say)
    begin(folder.path, reporter)
    try:
        yield
    except BaseException as error:
        stopped = isinstance(error, KeyboardInterrupt)
        give_up(folder.path, reporter, conclusion="cancelled" if stopped else "failure")
        raise


def end_run(
    context: Context,
    folder: RunFolder,
    summary: Summary,
    *,
    interrupted: bool,
    events: Sink | None,
) -> int:
    """Tell those who follow the events how a run ended, and people how to go on with one that was cut off.

    Args:
        context: the outside world.
        folder: of the run.
        summary: what its report came to.
        interrupted: whether the run was ended early.
        events: takes what happens, for other tools.

    Returns:
        The command's exit code.
    """
    code = EXIT_INTERRUPTED if interrupted else summary.exit_code
    if events is not None:
        events.write(run_end(summary.verdicts, code))
    if interrupted:
        context.say(f"to resume: spyre-ci run --resume {shlex.quote(str(folder.path))}")
    return code


def report_shards(
    context: Context, plan: Plan, shards: Sequence[Shard], folder: RunFolder, *, interrupted: bool
) -> Summary:
    """Account for some shards of a plan that ran here: their JUnit files and the closing table.

    The whole run is reported once, where all journals are gathered.
    """
    # Journals of other shards that ran here before are not this part's to account for.
    mine = {shard.index for shard in shards}
    journals = [one for one in gathered_journals(folder.path) if one.shard in mine]
    states = replay_all(journals, interrupted=interrupted)
    part = what_ran_here(plan, mine, states)
    # Where others were faster with all of it, nothing is missing.
    percent = 100 if part.ids or not any(shard.ids for shard in shards) else 0
    selection = Selection(stage=None, percent=percent, ids=part.ids)
    account = reconcile(part, journals, interrupted=interrupted, known=plan.ids, states=states)
    noted = read_identity(folder.path) if folder.identity.is_file() else identity_here(context, folder)
    identity = replace(noted, seed=plan.run_seed)
    account = mark_step(context, account, part, folder, began_at=identity.started_at)
    write_junit(folder.path / JUNIT_FOLDER, account, identity)
    summary = summarize(account, identity, selection)
    _show_ending(context, summary, account)
    return summary


def _show_ending(context: Context, summary: Summary, account: Account, report: Path | None = None) -> None:
    if context.verbosity < 0:
        context.say(outcome_line(summary))
    else:
        show_ending(context.console, summary, account, report)


def _what_was_to_run(folder: RunFolder) -> tuple[Plan, Selection, list[str]]:
    """The plan and the selection, of which either stands in for the other that is damaged, and what is.

    Raises:
        SpyreCiError: one of them is not there, or both are damaged.
    """
    try:
        plan = read_plan(folder.plan)
    except BadFileError as error:
        selection = read_selection(folder.selection)
        return plan_without_shards(selection.ids, gathered_journals(folder.path)), selection, [error.placed]
    try:
        return plan, read_selection(folder.selection), []
    except BadFileError as error:
        return plan, Selection(stage=None, percent=100, ids=plan.ids), [error.placed]


def _estimates(context: Context, plan: Plan, selection: Selection, folder: RunFolder) -> Estimates | None:
    """The seconds the plan was made with; none where only a bare plan was handed on.

    They serve the shares by seconds alone, so a broken file costs those and not the report.
    """
    if selection.in_scope_s is None or not folder.durations.is_file():
        return None
    found = context.attempt("shares by seconds are omitted", lambda: read_durations(folder.durations))
    if found is None:
        return None
    # By the plan's own copy of each id, as theirs are as large as the plan.
    planned = {name: found.tests[name] for name in plan.ids if name in found.tests}
    return Estimates(in_scope_s=selection.in_scope_s, tests=planned)


def identity_here(context: Context, folder: RunFolder) -> RunIdentity:
    """Who a run is that is this process's own, of no tests yet."""
    provider, device = context.provider, context.settings.model.device.name
    return RunIdentity(
        run=folder.run,
        run_id=provider.run_id,
        run_attempt=provider.run_attempt,
        device=device,
        pytorch_version="",
        pytorch_sha="",
        stage=None,
        percent=100,
        started_at=context.clock(),
        lane=provider.lane,
        job_name=provider.job_name,
        workflow=provider.workflow,
        url=provider.url,
        provider=provider.name,
        commit=provider.commit,
        back_end=back_end_of(device, context.environ),
        image=provider.image,
    )


def _remember(context: Context, folder: RunFolder, account: Account, *, cancelled: bool) -> None:
    """Write the run into the store; one that cannot be written costs estimates and pages, not the run."""
    settings, path = context.settings, folder.path / SUMMARY_FILE
    try:
        ways = _reporter(context, context.say, cancelled=cancelled).ways(folder.path)
        run = ReportedRun(
            summary=read_json(path, "summary"),
            results=account.results,
            setups=account.setup_seconds(),
            where=path,
            op_map=op_map_of(account, read_identity(folder.path)) if account.op_traces else None,
        )
        with open_kept(settings, context.environ, warn=context.say) as kept:
            repository = settings.model.report.repository
            record_run(kept, run, repository=repository, at=context.clock(), ways=ways)
            released = read_releases(settings)
            if not released.broken:
                days = settings.model.store.keep_days
                prune_daily(kept.store, kept.rows, keep_days=days, at=context.clock(), keep=released.run_ids)
    except (SpyreCiError, OSError, sqlite3.Error) as error:
        context.say(f"history: not written: {error}")


def _tell_provider(context: Context, folder: RunFolder) -> None:
    """Show the summary on the CI's page of the run; a page that cannot be written costs nothing else."""
    page = context.provider.step_summary
    if page is None:
        return
    try:
        append_once(page, (folder.path / MARKDOWN_FILE).read_text(encoding="utf-8"))
    except OSError as error:
        context.say(f"step summary: not written: {error}")
