"""Facts of the cluster, asked in a process of its own."""

from __future__ import annotations

from pathlib import Path

from ci.doctor.finding import Finding
from ci.doctor.judge.cluster import ClusterFacts, judge_cluster
from ci.doctor.world import Told, World, ask_module

LIMIT_S = 25.0


def look_cluster(world: World, home: Path | None = None) -> list[Finding]:
    """The cluster of the kubeconfig, or of this pod; nothing is asked where there is neither."""
    meant = meant_by(world, home or _home(world))
    told = ask_module(world, "ci.doctor.asked_cluster", limit_s=LIMIT_S) if meant else Told()
    return judge_cluster(ClusterFacts(meant=meant, told=told.row, why=told.why))


def meant_by(world: World, home: Path) -> str:
    """What says which cluster is meant; empty: nothing does. As `ci.jobs.access` has it."""
    if world.environ.get("KUBECONFIG"):
        return "KUBECONFIG"
    if (home / ".kube" / "config").is_file():
        return "~/.kube/config"
    return "this pod" if world.environ.get("KUBERNETES_SERVICE_HOST") else ""


def _home(world: World) -> Path:
    return Path(world.environ.get("HOME") or Path.home())
