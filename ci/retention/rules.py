"""What a prune is asked for, how much of each kind that keeps, and the stores it takes rows of.

The history goes by age and size, the HUD store by age.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ci.config.model import SettingsModel
from ci.hud.opening import STORE_FILE, open_kept
from ci.report.history_store import StoredRun, forget_runs, stored_runs
from ci.report.released import Released, why_kept
from ci.retention.caches import CACHES, WORKTREES
from ci.retention.folders import BISECTS, REPRODUCTIONS, RUNS
from ci.retention.images import IMAGES
from ci.retention.things import DAY_S, GIB, Found, Rule, Thing
from ci.steps.context import Context

HISTORY, HUD = "history", "hud"
KINDS = (RUNS, REPRODUCTIONS, BISECTS, CACHES, WORKTREES, IMAGES, HISTORY, HUD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a prune is asked for.

    Attributes:
        only: kinds; none: all.
        keep_days: in place of the settings'.
        keep_gib: the same.
        keep_last: the same.
        cut_off: whether what was cut off goes too, once it is old enough.
        dry_run: whether nothing is removed.
    """

    only: frozenset[str] = frozenset()
    keep_days: float | None = None
    keep_gib: float | None = None
    keep_last: int | None = None
    cut_off: bool = False
    dry_run: bool = False

    def wants(self, kind: str) -> bool:
        """Whether a kind is looked at."""
        return not self.only or kind in self.only


def rule_of(model: SettingsModel, wish: Wish, kind: str) -> Rule:
    """How much of a kind is kept: the settings, and flags before them.

    Flags that name no kind are not for the stores: what a cache may lose in a week, a history may not.
    """
    if kind in {HISTORY, HUD}:
        days: float | None = model.history.keep_days if kind == HISTORY else model.hud.keep_days
        gib = model.retention.history.keep_gib if kind == HISTORY else None
        last = model.retention.history.keep_last if kind == HISTORY else 0
        flags = kind in wish.only
    else:
        keep = getattr(model.retention, kind)
        days, gib, last, flags = keep.keep_days, keep.keep_gib, keep.keep_last, True
    if flags:
        days = days if wish.keep_days is None else wish.keep_days
        gib = gib if wish.keep_gib is None else wish.keep_gib
        last = last if wish.keep_last is None else wish.keep_last
    return Rule(
        keep_days=days,
        keep_bytes=None if gib is None else gib * GIB,
        keep_last=last,
        cut_off=wish.cut_off,
    )


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
    from ci.store.prune import give_back, prune  # noqa: PLC0415  # as in `open_kept`

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
