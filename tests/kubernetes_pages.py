"""Lists of a stand-in cluster: pages of what was there when the first was asked for."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.kubernetes_checks import Resource, refused
from tests.kubernetes_store import Object
from tests.stand_in import Answer


@dataclass(kw_only=True)
class Pages:
    """What of lists is still to be asked for.

    Attributes:
        longest: the most objects a page has, whatever limit is asked for; None: as asked for.
        expire: so many next pages are told to be too old.
    """

    longest: int | None = None
    expire: int = 0
    _kept: dict[str, list[Object]] = field(default_factory=dict)

    def page(
        self, resource: Resource, query: Mapping[str, str], rows: list[Object], *, version: str
    ) -> Answer:
        """The page that is asked for: the first of `rows`, or the next of what they were."""
        start, rows = 0, copy.deepcopy(rows)
        if token := query.get("continue", ""):
            try:
                told = json.loads(base64.b64decode(token))
                start, version, rows = told["start"], told["version"], self._kept[told["id"]]
            except (ValueError, KeyError):
                return refused(400, "BadRequest", "continue key is not valid")
            if self.expire:
                self.expire -= 1
                said = "The provided continue parameter is too old to display a consistent list result."
                return refused(410, "Expired", said)
        limit = min(int(query.get("limit") or len(rows) or 1), self.longest or len(rows) or 1)
        about: dict[str, Any] = {"resourceVersion": version}
        if start + limit < len(rows):
            name = f"{version}-{len(self._kept)}"
            self._kept[name] = rows
            told = {"id": name, "start": start + limit, "version": version}
            about["continue"] = base64.b64encode(json.dumps(told).encode()).decode()
            about["remainingItemCount"] = len(rows) - start - limit
        body = {"kind": f"{resource.kind}List", "apiVersion": resource.version, "metadata": about}
        return Answer(body={**body, "items": rows[start : start + limit]})
