"""Ask a cluster how its jobs stand: all of a namespace, and why pods of one left nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from ci.core.text import one_line, span
from ci.jobs.board import Board
from ci.jobs.cluster import Cluster
from ci.jobs.fate import Phase
from ci.jobs.labels import ANNOTATION, COMPONENT_LABEL, MANAGED_BY, MANAGED_BY_LABEL, selector
from ci.jobs.paths import path_of
from ci.jobs.standing import standing_of

HEAD = ("name", "kind", "state", "pods", "done", "failed", "age", "run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A job in a list.

    Attributes:
        name: of the job.
        kind: of its spec.
        state: in a word or two.
        pods: how many there are to be.
        active: that are there and have not ended.
        done: indexes that succeeded.
        failed: indexes that failed for good.
        age_s: seconds since it was made.
        run: its run's id.
    """

    name: str
    kind: str
    state: str
    pods: int
    active: int
    done: int
    failed: int
    age_s: float
    run: str

    def cells(self) -> tuple[str, ...]:
        """As a table has it, in the order of HEAD."""
        counts = (f"{self.active}/{self.pods}", str(self.done), str(self.failed))
        return (self.name, self.kind, self.state, *counts, span(self.age_s), self.run)

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)


def jobs_of(cluster: Cluster, *, now_s: float) -> list[Row]:
    """The jobs of a namespace that we made, the newest first.

    Args:
        cluster: they are on.
        now_s: seconds since the epoch.

    Raises:
        ClusterError: the cluster does not say.
    """
    found = []
    for kind in ("Job", "Deployment"):
        items, _ = cluster.items(path_of(kind, cluster.namespace), labels=f"{MANAGED_BY_LABEL}={MANAGED_BY}")
        # In a list objects do not say of what kind they are.
        found += [row_of({**one, "kind": kind}, now_s=now_s) for one in items]
    return sorted(found, key=lambda row: (row.age_s, row.name))


def row_of(job: Mapping[str, Any], *, now_s: float) -> Row:
    """A Job or Deployment as a row; pure."""
    about, standing = job["metadata"], standing_of(job)
    working = "running" if standing.active else "waits for pods"
    if "deletionTimestamp" in about:
        state = "is being removed"
    else:
        ending = "is ending" if standing.ending else ""
        state = str(standing.end or ending or standing.waits or working)
    return Row(
        name=one_line(str(about["name"])),
        kind=one_line(str((about.get("labels") or {}).get(COMPONENT_LABEL, ""))),
        state=state,
        pods=standing.pods,
        active=standing.active,
        done=len(standing.done),
        failed=len(standing.failed),
        age_s=max(now_s - _epoch(str(about.get("creationTimestamp") or "")), 0.0),
        run=one_line(str((about.get("annotations") or {}).get(f"{ANNOTATION}run-id", ""))),
    )


def _epoch(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


@dataclass(frozen=True, slots=True)
class Told:
    """What a cluster says of a job.

    Attributes:
        reasons: by pod that has not come to its end, where it is and why; empty where the job is gone.
        goes_on: it is there, and neither has an end nor comes to it.
    """

    reasons: Mapping[int, str] = field(default_factory=dict)
    goes_on: bool = False


def ask_cluster(cluster: Cluster, name: str) -> Told:
    """How a job stands, and where those of its pods are that have not come to their end.

    Args:
        cluster: it is on.
        name: of the job.

    Raises:
        ClusterError: the cluster does not say.
    """
    job = cluster.get(path_of("Job", cluster.namespace, name))
    if job is None:
        return Told()
    standing = standing_of(job)
    board = Board(standing, 0.0)
    pods, _ = cluster.items(path_of("Pod", cluster.namespace), labels=selector(name))
    board.relist(pods, 0.0)
    fates = [board.fate(index) for index in range(board.pods)]
    waits = standing.waits or (standing.reason if standing.over is not None else "")
    reasons = {
        fate.index: f"pod {fate.index} is {fate.phase}" + (f": {why}" if (why := fate.why or waits) else "")
        for fate in fates
        if fate.phase is not Phase.DONE
    }
    return Told(reasons, goes_on=standing.over is None)
