"""The stores of which a prune takes rows: the history, by age and size, and the HUD store, by age."""

from __future__ import annotations

from dataclasses import asdict

from ci.hud.opening import STORE_FILE, open_kept
from ci.report.history_store import StoredRun, forget_runs, stored_runs
from ci.report.released import Released
from ci.retention.rules import HISTORY
from ci.retention.things import DAY_S, Found, Thing
from ci.steps.context import Context
from ci.steps.releases_kept import why_kept


def find_history(context: Context, released: Released) -> tuple[Found, dict[str, StoredRun]]:
    """The runs of the history as things, and each by its name.

    Raises:
        BadFileError: the file is no history, or one of a newer version.
        SpyreCiError: another process holds the file for too long.
    """
    if not context.history.is_file():
        return Found(), {}
    rows = {f"{row.run}#{row.number}": row for row in stored_runs(context.history)}
    things = []
    for name, row in rows.items():
        why = why_kept(released, row.run, row.run_id)
        things.append(
            Thing(
                kind=HISTORY,
                name=name,
                path=str(context.history),
                at=row.started_at,
                own=row.bytes,
                held=(why,) if why else (),
            )
        )
    return Found(things=things), rows


def forget(context: Context, rows: list[StoredRun]) -> None:
    """Take rows out of the history."""
    if rows:
        forget_runs(context.history, rows)


def prune_hud(context: Context, released: Released, *, keep_days: float, dry_run: bool) -> dict[str, int]:
    """Take old jobs out of the HUD store; those of a release's runs stay.

    Returns:
        How many of what went, or would go.

    Raises:
        SpyreCiError: the store or ClickHouse cannot be used.
    """
    from ci.hud.server.keep import give_back, prune  # noqa: PLC0415  # as in `open_kept`

    settings, now = context.settings, context.clock()
    with open_kept(settings, context.environ, warn=context.say, there=True) as kept:
        gone = prune(
            kept.store,
            kept.rows,
            before=now - keep_days * DAY_S,
            at=now,
            dry_run=dry_run,
            keep=released.run_ids,
        )
        if not dry_run:
            give_back(kept.store, whole=True)
    return asdict(gone)


def has_hud(context: Context) -> bool:
    """Whether there is a HUD store here."""
    return context.state(STORE_FILE).is_file()
