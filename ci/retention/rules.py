"""What a prune is asked for, how much of each kind that keeps, and the runs of the store of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ci.config.model import SettingsModel
from ci.report.history import epoch_of
from ci.report.released import Released, why_kept
from ci.report.store import open_kept
from ci.retention.caches import CACHES, WORKTREES
from ci.retention.folders import BISECTS, REPRODUCTIONS, RUNS
from ci.retention.images import IMAGES
from ci.retention.things import GIB, Found, Rule, Thing
from ci.steps.context import Context
from ci.store.database import Row

STORE = "store"
KINDS = (RUNS, REPRODUCTIONS, BISECTS, CACHES, WORKTREES, IMAGES, STORE)


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

    Flags that name no kind are not for the store: what a cache may lose in a week, results may not.
    """
    if kind == STORE:
        days: float | None = model.store.keep_days
        gib, last = model.retention.store.keep_gib, model.retention.store.keep_last
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


_JOBS = """
SELECT j.id, d.run, d.provider, d.lane, j.workflow_name, j.run_id,
    CASE WHEN j._inserted_at = '' THEN j.started_at ELSE j._inserted_at END AS heard,
    coalesce((SELECT sum(c.tests) FROM job_card AS c WHERE c.workflow_id = CAST(j.run_id AS INTEGER)
        AND c.workflow_run_attempt = j.run_attempt AND c.job_id = j.job_id), 0) + 1 AS rows
FROM crcr_workflow_job AS j LEFT JOIN job_detail AS d ON d.dynamoKey = j.dynamoKey ORDER BY heard, j.id
"""


def find_runs(context: Context, released: Released) -> Found:
    """The runs of the store of results as things; each takes its share of the file.

    Raises:
        BadFileError: the file is no store, or one of another version.
        SpyreCiError: another process holds the file for too long.
    """
    if not context.history.there:
        return Found()
    with context.history.reading() as (_, file):
        rows = file.rows(_JOBS)
    size, total = context.history.path.stat().st_size, sum(row["rows"] for row in rows) or 1
    return Found(things=[_thing(context, released, row, size * row["rows"] // total) for row in rows])


def _thing(context: Context, released: Released, row: Row, size: int) -> Thing:
    run = row["run"] or f"{row['workflow_name']} {row['run_id']}"
    number = row["run_id"]
    why = why_kept(released, run, int(number) if number.isdecimal() else 0)
    return Thing(
        kind=STORE,
        name=f"{run}#{row['id']}",
        path=str(context.history.path),
        at=epoch_of(row["heard"]) if row["heard"] else None,
        own=size,
        held=(why,) if why else (),
    )


def forget(context: Context, gone: Sequence[str]) -> None:
    """Take runs out of the store, by name; one that is heard of meanwhile stays."""
    from ci.store.prune import give_back, prune  # noqa: PLC0415  # as in `open_kept`

    if not gone:
        return
    numbers = {int(name.rpartition("#")[2]) for name in gone}
    with open_kept(context.settings, context.environ, warn=context.say) as kept:
        now = context.clock()
        prune(kept.store, kept.rows, before=now, at=now, only=numbers)
        give_back(kept.store)
