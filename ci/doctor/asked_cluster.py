"""A process that asks a cluster who we are to it; its login program may hang, or start what it likes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

PATIENCE_S = 6.0
# What a submit comes to grief without; `spyre-ci job validate` asks for all.
WANTED = ("create jobs", "create configmaps", "list pods", "get pods/log")


def main(arguments: Sequence[str]) -> None:
    """Print what was found as a JSON object; there are no arguments."""
    assert not arguments  # noqa: S101  # nobody gives any
    sys.stdout.write(json.dumps(asked()) + "\n")


def asked() -> dict[str, Any]:
    """The cluster's version, the namespace, and what may not be done there."""
    from ci.core.errors import CommandError, SpyreCiError  # noqa: PLC0415  # quick to begin

    try:
        from ci.jobs.cluster import open_cluster  # noqa: PLC0415  # what it imports may be missing
        from ci.jobs.errors import ClusterAwayError, CredentialsError, ForbiddenError  # noqa: PLC0415  # the same
        from ci.jobs.paths import ACCESS_REVIEW  # noqa: PLC0415  # the same
        from ci.jobs.validate.rights import RIGHTS  # noqa: PLC0415  # the same
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
        refused = []
        for right in (one for one in RIGHTS if str(one) in WANTED):
            answer = cluster.create(ACCESS_REVIEW, right.review(cluster.namespace))
            if not (answer.get("status") or {}).get("allowed"):
                refused.append(str(right))
    except SpyreCiError as error:
        kind = next((name for one, name in kinds.items() if isinstance(error, one)), "refused")
        return {"fault": kind, "error": error.placed, "remedy": error.remedy or ""}
    return {**found, "refused": refused}
