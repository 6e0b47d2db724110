"""Marking an account: what is quarantined, and what the control device made of the failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from ci.core.errors import SpyreCiError, UsageError
from ci.record.journal import read_journals
from ci.report.control import DEVICES, controls, mark_controls
from ci.report.quarantine import FILE, check_entries, day_of, load_quarantine
from ci.report.quarantine_note import QuarantineNote, quarantine_results
from ci.report.reconcile import Account, reconcile
from ci.steps.context import Context
from ci.steps.folder import JOURNALS, RunFolder
from test_selection.catalog import read_catalog
from test_selection.plan import Plan
from test_selection.suite_check import Finding


def quarantine_file(context: Context) -> Path | None:
    """The quarantine file of the settings, or the one beside them; None where there is neither."""
    settings = context.settings
    if (named := settings.model.run.quarantine) is not None:
        return settings.resolve(named)
    beside = settings.resolve(Path(FILE))
    return beside if beside.is_file() else None


def check_quarantine(context: Context) -> None:
    """Refuse a quarantine file that cannot be taken, before anything runs.

    Raises:
        MissingInputError: the settings name a file that is not there.
        SettingsError: a key or value that cannot be taken.
    """
    if (path := quarantine_file(context)) is not None:
        load_quarantine(path, today=day_of(context.clock()))


def check_step(context: Context, named: Path | None, catalog: Path | None) -> tuple[int, list[Finding]]:
    """How many entries a quarantine file has, and what somebody has to see to.

    Args:
        context: the outside world.
        named: the file; None takes that of the settings.
        catalog: looked up for entries that match no test; None leaves that out.

    Raises:
        SpyreCiError: a file is missing or cannot be taken.
    """
    path = named if named is not None else quarantine_file(context)
    if path is None:
        raise UsageError("there is no quarantine file to check", remedy=f"name one, or make {FILE}")
    today = day_of(context.clock())
    quarantine = load_quarantine(path, today=today)
    ids = None if catalog is None else {one.id for one in read_catalog(catalog).tests}
    findings = check_entries(quarantine, today=today, catalog=ids)
    return len(quarantine.entries), findings


def protected(context: Context, names: Sequence[str]) -> set[str]:
    """Which tests an entry protects today.

    Raises:
        SpyreCiError: the quarantine file is missing or cannot be taken.
    """
    path = quarantine_file(context)
    if path is None:
        return set()
    today = day_of(context.clock())
    covering = load_quarantine(path, today=today).covering(names)
    return {name for name, entries in covering.items() if not all(one.expired(today) for one in entries)}


def mark_step(
    context: Context, account: Account, plan: Plan, folder: RunFolder, *, began_at: float
) -> Account:
    """The account with every failure's marks.

    Args:
        context: the outside world.
        account: of the run, or of some of its shards.
        plan: what it accounts for.
        folder: of the run, with the control's journals where there are any.
        began_at: seconds since the epoch; the quarantine holds as of that day.
    """
    if (folder.control.path / JOURNALS).is_dir():
        found = controls(reconcile(plan, read_journals(folder.control.path)).results, DEVICES[0])
        account = replace(account, results=mark_controls(account.results, found), control=DEVICES[0])
    path, began_on = quarantine_file(context), day_of(began_at)
    if path is None:
        return account
    try:
        # By the later of two clocks: what the run took when it began is not refused by one that is behind.
        quarantine = load_quarantine(path, today=max(day_of(context.clock()), began_on))
    except SpyreCiError as error:
        # The file was sound when the run began, or another host began it: the account is worth more.
        context.say(f"quarantine: not read, so nothing is quarantined: {error}")
        return replace(account, quarantine=QuarantineNote(file=str(path), entries=(), error=str(error)))
    catalog = partial(_collected, context, folder)
    results, note = quarantine_results(account.results, quarantine, today=began_on, catalog=catalog)
    return replace(account, results=results, quarantine=note)


def _collected(context: Context, folder: RunFolder) -> set[str] | None:
    """Every id of the run's catalog; None where only a bare plan was handed on."""
    if not folder.catalog.is_file():
        return None
    unread = "quarantine: entries are not looked up in the catalog"
    catalog = context.attempt(unread, lambda: read_catalog(folder.catalog))
    return None if catalog is None else {one.id for one in catalog.tests}
