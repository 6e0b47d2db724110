"""What a stand-in of a cluster holds: objects, their versions, and what happened to them since."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

Key = tuple[str, str, str]
Object = dict[str, Any]
FOREGROUND = "foregroundDeletion"


@dataclass(frozen=True, kw_only=True)
class Change:
    """What happened to an object, as a watch tells it."""

    version: int
    kind: str
    plural: str
    object: Object


@dataclass(kw_only=True)
class Store:
    """Objects by plural, namespace and name; whoever reads or changes it holds `changed`."""

    objects: dict[Key, Object] = field(default_factory=dict)
    history: list[Change] = field(default_factory=list)
    # Watches from before this version are told that it is gone.
    oldest: int = 0
    version: int = 1000
    changed: threading.Condition = field(default_factory=threading.Condition)
    # Pods a kubelet would have to end, and which are gone for that: they stay until somebody forces them.
    stuck: set[str] = field(default_factory=set)
    _uids: Iterator[int] = field(default_factory=lambda: count(1))

    def add(self, plural: str, made: Object) -> Object:
        """Make an object that has passed all checks."""
        about = made["metadata"]
        about["uid"] = f"00000000-0000-4000-8000-{next(self._uids):012d}"
        about["creationTimestamp"] = now()
        about.setdefault("generation", 1)
        self.objects[self.key(plural, made)] = made
        self.tell("ADDED", plural, made)
        return made

    def tell(self, kind: str, plural: str, changed: Object) -> None:
        """Give an object its next version, and let watches know."""
        self.version += 1
        changed["metadata"]["resourceVersion"] = str(self.version)
        self.history.append(
            Change(version=self.version, kind=kind, plural=plural, object=copy.deepcopy(changed))
        )
        self.changed.notify_all()

    def remove(self, plural: str, gone: Object) -> None:
        """Take an object away, for good."""
        if self.objects.pop(self.key(plural, gone), None) is not None:
            self.tell("DELETED", plural, gone)

    def delete(self, plural: str, gone: Object, propagation: str) -> None:
        """Delete an object as asked for, and what it owns."""
        self._delete(plural, gone, propagation)
        self.collect()

    def _delete(self, plural: str, gone: Object, propagation: str) -> None:
        owned = [] if plural == "pods" else self.owned(gone)
        if propagation == "Orphan":
            for _, one in owned:
                one["metadata"].pop("ownerReferences", None)
            owned = []
        if propagation == "Foreground" and owned:
            gone["metadata"].setdefault("deletionTimestamp", now())
            gone["metadata"]["finalizers"] = [FOREGROUND]
            self.tell("MODIFIED", plural, gone)
        elif plural == "pods" and gone["metadata"]["uid"] in self.stuck:
            gone["metadata"].setdefault("deletionTimestamp", now())
            self.tell("MODIFIED", plural, gone)
        else:
            self.remove(plural, gone)
        for kind, one in owned:
            self._delete(kind, one, "Background")

    def collect(self) -> None:
        """Let go of what waited for what it owns."""
        for key, one in list(self.objects.items()):
            if FOREGROUND in one["metadata"].get("finalizers", ()) and not self.owned(one):
                self.remove(key[0], one)

    def owned(self, owner: Object) -> list[tuple[str, Object]]:
        """What an object owns, with its plural."""
        uid = owner["metadata"]["uid"]
        return [
            (key[0], one)
            for key, one in self.objects.items()
            if any(ref["uid"] == uid for ref in one["metadata"].get("ownerReferences") or ())
        ]

    def of(self, plural: str, namespace: str = "") -> list[Object]:
        """All objects of a kind, in the order of their names."""
        found = [
            (key, one)
            for key, one in self.objects.items()
            if key[0] == plural and (not namespace or key[1] == namespace)
        ]
        return [one for _, one in sorted(found, key=lambda pair: pair[0])]

    @staticmethod
    def key(plural: str, one: Object) -> Key:
        return plural, one["metadata"].get("namespace", ""), one["metadata"]["name"]


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def selected(one: Mapping[str, Any], labels: str, fields: str) -> bool:
    """Whether an object is what selectors ask for; equality and `key` alone, as most ask."""
    has = one["metadata"].get("labels") or {}
    return all(_holds(part, has.get) for part in filter(None, labels.split(","))) and all(
        _holds(part, lambda path: _field(one, path)) for part in filter(None, fields.split(","))
    )


def _holds(part: str, value_of: Any) -> bool:
    if "!=" in part:
        name, _, wanted = part.partition("!=")
        return bool(value_of(name) != wanted)
    name, found, wanted = part.partition("=")
    return bool(value_of(name) == wanted.lstrip("=")) if found else value_of(name) is not None


def _field(one: Any, path: str) -> Any:
    for name in path.split("."):
        one = one.get(name) if isinstance(one, Mapping) else None
    return one
