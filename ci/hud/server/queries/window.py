"""What is asked about: how many days back, which repository, lane and event; and times as rows have them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from ci.hud.server.database import Value

DAY_S = 24 * 3600.0


def moment(epoch_s: float) -> str:
    """Seconds since the epoch as the text rows have, so that texts compare as times."""
    return datetime.fromtimestamp(max(epoch_s, 0.0), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def names_of(prefix: str, number: int) -> list[str]:
    """So many names for values of a query; of letters alone, which is what ClickHouse's values may have."""
    letters = str.maketrans("0123456789", "abcdefghij")
    return [f"{prefix}_{str(place).translate(letters)}" for place in range(number)]


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
