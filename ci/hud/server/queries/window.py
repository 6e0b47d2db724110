"""What is asked about: how many days back, which repository, lane and event, and what there is to choose."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ci.store.database import Database, Value, moment

DAY_S = 24 * 3600.0
MOST = 200
DAYS = (7, 14, 30, 90, 180, 365)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A choice of jobs; an empty text chooses all.

    Attributes:
        now: seconds since the epoch.
        days: how far back a job may have started.
        repo: downstream repository.
        lane: as the job says it, else the name of its workflow.
        event: `pull_request`, `nightly`, `periodic`.
    """

    now: float
    days: int = 30
    repo: str = ""
    lane: str = ""
    event: str = ""

    @property
    def since(self) -> str:
        """Jobs that started after this are within."""
        return moment(self.now - self.days * DAY_S)

    @property
    def values(self) -> dict[str, Value]:
        """What the conditions of CHOSEN bind."""
        return {"since": self.since, "repo": self.repo, "lane": self.lane, "event": self.event}


# The lane a job says, or its workflow where it says none: other back ends know no lanes.
LANE = "CASE WHEN coalesce(d.lane, '') = '' THEN j.workflow_name ELSE d.lane END"
# Of the jobs of a window: what every page asks about them. Superseded attempts are nobody's news.
CHOSEN = f"""
    FROM crcr_workflow_job_ranked AS j LEFT JOIN job_detail AS d ON d.dynamoKey = j.dynamoKey
    WHERE j.started_at > :since AND NOT j.superseded
        AND (:repo = '' OR j.downstream_repo = :repo)
        AND (:event = '' OR j.event_type = :event)
        AND (:lane = '' OR {LANE} = :lane)
"""
# The same jobs as a table, beside which rows of tests and of cards are read.
WINDOW_JOBS = f"""(
    SELECT j.workflow_id AS o_workflow, j.workflow_run_attempt AS o_attempt, j.job_id AS o_job,
        j.id AS o_id, j.status AS o_status, j.started_at AS o_started, substr(j.started_at, 1, 10) AS o_day
    {CHOSEN}
)"""


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
