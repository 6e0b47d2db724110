"""Which object of a stand-in cluster a request is about, and how objects are answered and changed."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from typing import Any

from tests.kubernetes_checks import RESOURCES, Resource
from tests.kubernetes_store import Object
from tests.stand_in import Seen


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A request that has found its kind."""

    resource: Resource
    namespace: str
    name: str
    part: str
    seen: Seen


VERBS = {
    ("GET", True): "get", ("GET", False): "list", ("POST", False): "create", ("PATCH", True): "patch",
    ("DELETE", True): "delete", ("DELETE", False): "deletecollection",
}  # fmt: skip


def found(seen: Seen) -> Ask | None:
    """The kind, namespace and name a path is of; None: it is of none."""
    for one in RESOURCES:
        if not seen.path.startswith(f"{one.base}/"):
            continue
        within = r"(namespaces/(?P<namespace>[^/]+)/)?" if one.namespaced else ""
        part = r"(/(?P<part>log))?" if one.kind == "Pod" else ""
        match = re.fullmatch(rf"{one.base}/{within}{one.plural}(/(?P<name>[^/]+){part})?", seen.path)
        if match is not None:
            found = match.groupdict(default="")
            return Ask(
                resource=one, namespace=found.get("namespace", ""), name=found["name"],
                part=found.get("part", ""), seen=seen,
            )  # fmt: skip
    return None


def whole(resource: Resource, one: Object) -> Object:
    """As it is answered alone; in a list objects have neither kind nor version."""
    return copy.deepcopy({**one, "kind": resource.kind, "apiVersion": resource.version})


def merge(one: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    found = copy.deepcopy(one) if isinstance(one, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merge(found.get(key), value)
    return found
