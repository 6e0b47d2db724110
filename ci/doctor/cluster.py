"""Check the cluster that jobs would go to: whether it answers, knows us, and lets us make one.

It is asked in a process of its own (`main`): its login program may hang, or start what it likes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.core.errors import CommandError, SpyreCiError
from ci.doctor.finding import Finding, Level, ok
from ci.doctor.world import Told, World, ask_module

CLUSTER = "cluster"
LIMIT_S = 25.0
PATIENCE_S = 6.0
# What a submit comes to grief without; `spyre-ci job validate` asks for all.
WANTED = ("create jobs", "create configmaps", "list pods", "get pods/log")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What the cluster said.

    Attributes:
        meant: what says which one is meant: `KUBECONFIG`, `~/.kube/config`, `this pod`; empty: nothing.
        told: what the process printed; empty where it did not end as it should.
        why: that.
    """

    meant: str
    told: Mapping[str, Any]
    why: str = ""


def judge_cluster(facts: ClusterFacts) -> list[Finding]:
    """Whether jobs can be made; only who named a cluster in KUBECONFIG has asked for one."""
    if not facts.meant:
        return [ok(CLUSTER, "not used: nothing names one (KUBECONFIG, ~/.kube/config)")]
    told = facts.told
    if not told:
        return [_bad(facts, f"does not answer: {facts.why}", "check the network, or sign in again: oc login")]
    if told.get("fault"):
        return [_bad(facts, str(told["error"]), str(told.get("remedy") or "sign in again: oc login"))]
    said = f"{told.get('version')}, namespace {told.get('namespace')}"
    if refused := told.get("refused"):
        remedy = "have whoever keeps the namespace give you the Role of docs/jobs-cluster.md"
        return [_bad(facts, f"{said}; here one may not {', '.join(map(str, refused))}", remedy)]
    return [ok(CLUSTER, f"{said} (of {facts.meant}); jobs may be made")]


def _bad(facts: ClusterFacts, said: str, remedy: str) -> Finding:
    # The library is an extra, and a file of the home folder may be for anything.
    asked_for = facts.meant == "KUBECONFIG" and facts.told.get("fault") != "lacks"
    level = Level.FAULT if asked_for else Level.WARNING
    return Finding(look=CLUSTER, level=level, said=f"of {facts.meant}: {said}", remedy=remedy)


def look_cluster(world: World, home: Path | None = None) -> list[Finding]:
    """The cluster of the kubeconfig, or of this pod; nothing is asked where there is neither."""
    meant = meant_by(world, home or Path(world.environ.get("HOME") or Path.home()))
    told = ask_module(world, "ci.doctor.cluster", limit_s=LIMIT_S) if meant else Told()
    return judge_cluster(ClusterFacts(meant=meant, told=told.row, why=told.why))


def meant_by(world: World, home: Path) -> str:
    """What says which cluster is meant; empty: nothing does. As `ci.jobs.access` has it."""
    if world.environ.get("KUBECONFIG"):
        return "KUBECONFIG"
    if (home / ".kube" / "config").is_file():
        return "~/.kube/config"
    return "this pod" if world.environ.get("KUBERNETES_SERVICE_HOST") else ""


def main(arguments: Sequence[str]) -> None:
    """Print what was found as a JSON object; there are no arguments."""
    assert not arguments  # noqa: S101  # nobody gives any
    sys.stdout.write(json.dumps(asked()) + "\n")


def asked() -> dict[str, Any]:
    """The cluster's version, the namespace, and what may not be done there."""
    try:
        from ci.jobs.cluster import open_cluster  # noqa: PLC0415  # what it imports may be missing
        from ci.jobs.errors import ClusterAwayError, CredentialsError, ForbiddenError  # noqa: PLC0415  # the same
        from ci.jobs.validate import RIGHTS  # noqa: PLC0415  # the same
    except ModuleNotFoundError as error:
        return {"fault": "lacks", "error": f"a library is not installed: {error.name}",
                "remedy": "pip install 'spyre-ci[jobs]'"}  # fmt: skip
    kinds = {
        CredentialsError: "credentials",
        ForbiddenError: "credentials",
        ClusterAwayError: "away",
        CommandError: "lacks",
    }
    try:
        cluster = open_cluster(os.environ, patience_s=PATIENCE_S)
        found: dict[str, Any] = {
            "namespace": cluster.namespace,
            "version": cluster.version().get("gitVersion", ""),
        }
        refused = [str(one) for one in RIGHTS if str(one) in WANTED and not one.is_had(cluster)]
    except SpyreCiError as error:
        kind = next((name for one, name in kinds.items() if isinstance(error, one)), "refused")
        return {"fault": kind, "error": error.placed, "remedy": error.remedy or ""}
    return {**found, "refused": refused}
