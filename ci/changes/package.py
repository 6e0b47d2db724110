"""What the parts of a package's modules use of each other, and the ops that a changed part serves. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath

from ci.changes.python_module import Module, Part, Use

# A module's path, and the name of a part of it.
Place = tuple[str, str]
Dotted = tuple[str, ...]


@dataclass(slots=True)
class Reach:
    """What changed parts serve.

    Attributes:
        ops: families of ops, each with the reason.
        unresolved: the parts of which it cannot be told, each as a reason why any test may break.
    """

    ops: dict[str, str] = field(default_factory=dict)
    unresolved: list[str] = field(default_factory=list)


class Package:
    """The modules of a repository."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        """Take modules by their paths from the repository's top."""
        self.modules = modules
        self._dotted = {dotted(path, modules): path for path in modules}
        self._methods: dict[str, set[Place]] = {}
        # Modules that are handed on as values: whoever gets one may look any name up in it.
        self._handed_on: set[str] = set()
        for path, module in modules.items():
            for name in module.parts:
                self._methods.setdefault(name.rpartition(".")[2], set()).add((path, name))

    def reach(self, changed: Iterable[Place]) -> Reach:
        """The ops that changed parts serve: their own, and those of all that uses them, however far."""
        found = Reach()
        for place in changed:
            ops = self._served(place)
            if not ops:
                found.unresolved.append(f"{_words(place)} is used by nothing that names an op")
            for op in ops or ():
                found.ops.setdefault(op, f"{_words(place)} serves {op}")
        return found

    def imported(self, path: str) -> set[str]:
        """The modules that a module imports."""
        module = self.modules[path]
        targets = [self._absolute(path, one) for one in module.stars.union(*module.imports.values())]
        starts = {target[:length] for target in targets for length in range(1, len(target) + 1)}
        return {self._dotted[name] for name in starts & self._dotted.keys()}

    def users(self, path: str, names: Iterable[str]) -> list[Place]:
        """The parts of a module that use one of the names, as that module calls them."""
        names = set(names)
        return [
            (path, name)
            for name, part in self.modules[path].parts.items()
            if any(
                use[0] in names for use in (*part.uses, *(one for group in part.groups for one in group.uses))
            )
        ]

    def _served(self, start: Place) -> set[str]:
        """The ops that a part serves; none where something uses it of which that cannot be told."""
        bound, used_by = self._bound, self._used_by
        ops: set[str] = set()
        waiting, seen = deque([start]), {start}
        while waiting:
            place = waiting.popleft()
            path, name = place
            part = self.modules[path].parts[name]
            own = part.ops | bound.get(place, set())
            if place == start:
                own = own.union(*(group.ops for group in part.groups))
            users = used_by.get(place, set())
            if (
                path in self._handed_on
                or self.modules[path].dynamic
                or not (own or (users and not part.runs))
            ):
                return set()
            ops |= own
            waiting.extend(users - seen)
            seen |= users
        return ops

    @cached_property
    def _bound(self) -> dict[Place, set[str]]:
        """By part, the ops that registrations give it."""
        found: dict[Place, set[str]] = {}
        for path, _, part in self._parts():
            for group in part.groups:
                for use in group.uses:
                    for place in self._resolve(path, use):
                        found.setdefault(place, set()).update(group.ops)
        return found

    @cached_property
    def _used_by(self) -> dict[Place, set[Place]]:
        """By part, the parts that use it outside of registrations."""
        found: dict[Place, set[Place]] = {}
        for path, name, part in self._parts():
            for use in part.uses:
                for place in self._resolve(path, use):
                    if place != (path, name):
                        found.setdefault(place, set()).add((path, name))
        for path, name, _ in self._parts():
            # A class is made of its methods: who uses the one may run the other.
            cls, _, method = name.rpartition(".")
            if method.startswith("__") and cls in self.modules[path].parts:
                found.setdefault((path, name), set()).add((path, cls))
        return found

    def _parts(self) -> Iterator[tuple[str, str, Part]]:
        for path, module in self.modules.items():
            for name, part in module.parts.items():
                yield path, name, part

    def _resolve(self, path: str, use: Use) -> set[Place]:
        """The parts that a name stands for in a module."""
        if use[0] == "":
            return {one for one in self._methods.get(use[1], ()) if "." in one[1]}
        return self._in_module(path, use, set())

    def _in_module(self, path: str, names: Dotted, seen: set[tuple[str, Dotted]]) -> set[Place]:
        module = self.modules[path]
        if (path, names) in seen:
            return set()
        seen.add((path, names))
        if names[0] in module.parts:
            inner = ".".join(names[:2])
            return {(path, names[0])} | ({(path, inner)} if inner in module.parts else set())
        found = set()
        for target in module.imports.get(names[0], ()):
            found |= self._from_top(self._absolute(path, target) + names[1:], seen)
        for star in module.stars:
            found |= self._from_top(self._absolute(path, star) + names, seen)
        return found

    def _from_top(self, names: Dotted, seen: set[tuple[str, Dotted]]) -> set[Place]:
        for length in range(len(names), 0, -1):
            if (path := self._dotted.get(names[:length])) is not None:
                if names[length:]:
                    return self._in_module(path, names[length:], seen)
                self._handed_on.add(path)
                return set()
        return set()

    def _absolute(self, path: str, target: Dotted) -> Dotted:
        level = next((number for number, name in enumerate(target) if name), len(target))
        if not level:
            return target
        here = dotted(path, self.modules)
        base = here if PurePosixPath(path).stem == "__init__" else here[:-1]
        return base[: len(base) - level + 1] + target[level:]


def dotted(path: str, paths: Mapping[str, object]) -> Dotted:
    """A module's name by its path: its folders, from the first that is a package; pure."""
    parts = list(PurePosixPath(path).with_suffix("").parts)
    start = len(parts) - 1
    while start and "/".join([*parts[:start], "__init__.py"]) in paths:
        start -= 1
    return tuple(parts[start:-1] if parts[-1] == "__init__" else parts[start:])


def _words(place: Place) -> str:
    path, name = place
    return f"{name if name.replace('.', '').isidentifier() else 'a statement'} of {path}"
