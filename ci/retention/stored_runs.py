"""Runs in the store of results, as items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ci.report.history import epoch_of
from ci.report.released import Released, why_kept
from ci.report.store import open_kept
from ci.retention.rules import Decision, Item
from ci.steps.context import Context

STORE = "store"
_JOBS = """
SELECT j.id, d.run, j.workflow_name, j.run_id,
    CASE WHEN j._inserted_at = '' THEN j.started_at ELSE j._inserted_at END AS heard,
    coalesce((SELECT sum(c.tests) FROM job_card AS c WHERE c.workflow_id = CAST(j.run_id AS INTEGER)
        AND c.workflow_run_attempt = j.run_attempt AND c.job_id = j.job_id), 0) + 1 AS rows
FROM crcr_workflow_job AS j LEFT JOIN job_detail AS d ON d.dynamoKey = j.dynamoKey ORDER BY heard, j.id
"""


def find_stored_runs(context: Context, released: Released) -> list[Item]:
    """Find the runs of the store; each takes the share of its file that its rows have.

    Raises:
        SpyreCiError: the store cannot be used.
    """
    if not context.history.there:
        return []
    with context.history.reading() as (_, file):
        rows = file.rows(_JOBS)
    path = context.history.path
    bytes_per_row = path.stat().st_size / (sum(row["rows"] for row in rows) or 1)
    items = []
    for row in rows:
        run_id = row["run_id"]
        run = row["run"] or f"{row['workflow_name']} {run_id}"
        items.append(
            Item(
                kind=STORE,
                name=f"{run}#{row['id']}",
                path=str(path),
                at=epoch_of(row["heard"]) if row["heard"] else None,
                bytes=int(bytes_per_row * row["rows"]),
                held=why_kept(released, run, int(run_id) if run_id.isdecimal() else 0),
            )
        )
    return items


def forget(context: Context, decisions: Sequence[Decision], *, found_at: float) -> list[Decision]:
    """Take the runs that go out of the store, all at once; return what became of each.

    One that reported after `found_at` stays.
    """
    from ci.store.prune import give_back, prune  # noqa: PLC0415  # as in `open_kept`

    numbers = {_number(one) for one in decisions if one.goes}
    if not numbers:
        return list(decisions)
    with open_kept(context.settings, context.environ, warn=context.say) as kept:
        prune(kept.store, kept.rows, before=found_at, at=context.clock(), only=numbers)
        give_back(kept.store)
    with context.history.reading() as (_, file):
        left = {row["id"] for row in file.rows(_JOBS)}
    return [
        replace(one, goes=False, why="reported meanwhile") if one.goes and _number(one) in left else one
        for one in decisions
    ]


def _number(decision: Decision) -> int:
    return int(decision.item.name.rpartition("#")[2])
