"""What a page's filters can be set to: the repositories, lanes and events of a window."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ci.hud.server.database import Database
from ci.hud.server.queries.window import CHOSEN, LANE, Window

MOST = 200
DAYS = (7, 14, 30, 90, 180, 365)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The filters of a page: what is chosen, and what could be; sorted, at most 200 of each."""

    chosen: Window
    repos: tuple[str, ...]
    lanes: tuple[str, ...]
    events: tuple[str, ...]
    days: tuple[int, ...]


def form(database: Database, window: Window) -> Form:
    """What could be chosen instead of a window; what is chosen is always among it."""
    everything = replace(window, repo="", lane="", event="")
    rows = database.rows(
        f"""
        SELECT j.downstream_repo AS o_repo, {LANE} AS o_lane, j.event_type AS o_event
        {CHOSEN} GROUP BY j.downstream_repo, {LANE}, j.event_type
        """,  # our names
        everything.values,
    )
    return Form(
        chosen=window,
        repos=_sorted({row["o_repo"] for row in rows} | {window.repo}),
        lanes=_sorted({row["o_lane"] for row in rows if window.repo in {"", row["o_repo"]}} | {window.lane}),
        events=_sorted({row["o_event"] for row in rows} | {window.event}),
        days=tuple(sorted({*DAYS, window.days})),
    )


def _sorted(found: set[str]) -> tuple[str, ...]:
    return tuple(sorted(one for one in found if one)[:MOST])
