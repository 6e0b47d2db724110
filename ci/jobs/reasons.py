"""Why pods of a job left nothing, as the cluster knows it; for the shards of which no journal tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ci.jobs.board import Board
from ci.jobs.cluster import Cluster
from ci.jobs.fate import Phase
from ci.jobs.labels import selector
from ci.jobs.paths import path_of
from ci.jobs.standing import standing_of


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
