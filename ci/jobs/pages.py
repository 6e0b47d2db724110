"""Lists of a cluster, page by page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ci.jobs.asking import Asking
from ci.jobs.errors import ClusterAwayError

PAGE = 500


def all_pages(asking: Asking, path: str, narrowed: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
    """What a list holds, and the version it is of.

    Args:
        asking: the cluster.
        path: of the list.
        narrowed: selectors, as the address has them.

    Raises:
        GoneError: the version was dropped under way.
        ClusterError: see `ci.jobs.errors`.
    """
    found: list[dict[str, Any]] = []
    query = {**narrowed, "limit": str(PAGE)}
    while True:
        page = asking.answer("GET", path, query)
        about, rows = page.get("metadata") or {}, page.get("items")
        if not isinstance(rows, list):
            raise ClusterAwayError(
                f"the answer to GET {path} is no list", remedy="check the cluster's address"
            )
        found += rows
        if not about.get("continue"):
            return found, str(about.get("resourceVersion", ""))
        query["continue"] = about["continue"]
