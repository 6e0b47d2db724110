"""Why pods of a job left nothing, as the cluster knows it; for the shards of which no journal tells."""

from __future__ import annotations

from ci.jobs.board import Board
from ci.jobs.cluster import Cluster
from ci.jobs.fate import Phase
from ci.jobs.labels import selector
from ci.jobs.paths import path_of
from ci.jobs.standing import standing_of


def reasons_of(cluster: Cluster, name: str) -> dict[int, str]:
    """By pod that has not come to its end, where it is and why; empty where the job is gone.

    Args:
        cluster: it is on.
        name: of the job.

    Raises:
        ClusterError: the cluster does not say.
    """
    job = cluster.get(path_of("Job", cluster.namespace, name))
    if job is None:
        return {}
    standing = standing_of(job)
    board = Board(standing, 0.0)
    pods, _ = cluster.items(path_of("Pod", cluster.namespace), labels=selector(name))
    board.relist(pods, 0.0)
    fates = [board.fate(index) for index in range(board.pods)]
    waits = standing.waits or (standing.reason if standing.over is not None else "")
    return {
        fate.index: f"pod {fate.index} is {fate.phase}" + (f": {why}" if (why := fate.why or waits) else "")
        for fate in fates
        if fate.phase is not Phase.DONE
    }
