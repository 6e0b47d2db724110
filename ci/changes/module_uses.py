"""What the parts of a package's modules use of each other, and the ops that a changed part serves. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from ci.changes.python_module import Group, Module, Use

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
        # By each end of its path, since it is not known which folder imports begin at.
        self._dotted: dict[Dotted, set[str]] = {}
        for path in modules:
            names = _dotted(path)
            for start in range(len(names)):
                self._dotted.setdefault(names[start:], set()).add(path)
        # Modules that are handed on as values: whoever gets one may look any name up in it.
        self._handed_on: set[str] = set()
        # By part, the parts that use it outside of registrations, and the registrations that it is in.
        self._used_by: dict[Place, set[Place]] = {}
        self._registered: dict[Place, list[tuple[Place, Group]]] = {}
        for path, module in modules.items():
            for name, part in module.parts.items():
                for use in part.uses:
                    for place in self._resolve(path, use):
                        self._used_by.setdefault(place, set()).add((path, name))
                for group in part.groups:
                    for place in set().union(*(self._resolve(path, use) for use in group.uses)):
                        self._registered.setdefault(place, []).append(((path, name), group))

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
        return set().union(*(self._dotted[name] for name in starts & self._dotted.keys()))

    def looked_up(self, table: Place) -> set[str]:
        """The ops of what uses a table, as far as that can be told."""
        return set().union(*map(self._own, self._all_users([table])))

    def _served(self, start: Place) -> set[str]:
        """The ops that a part serves; none where something uses it of which that cannot be told."""
        places = self._all_users([start])
        for place in places:
            path, name = place
            part, users = self.modules[path].parts[name], self._users(place)
            if path in self._handed_on or self.modules[path].dynamic:
                return set()
            if not (self._own(place) or (users and not part.runs)):
                return set()
        tables = {table for place in places for table, _ in self._registrations(place)}
        of_start = (group.ops for group in self.modules[start[0]].parts[start[1]].groups)
        return set().union(*map(self._own, places), *map(self.looked_up, tables), *of_start)

    def _all_users(self, places: Iterable[Place]) -> set[Place]:
        """Parts, and all that uses them, however far."""
        found = set(places)
        waiting = [*found]
        while waiting:
            new = self._users(waiting.pop()) - found
            found |= new
            waiting += new
        return found

    def _own(self, place: Place) -> set[str]:
        """The ops that a part registers for itself, or that registrations give it."""
        ops = self.modules[place[0]].parts[place[1]].ops
        return ops.union(*(group.ops for _, group in self._registrations(place)))

    def _registrations(self, place: Place) -> list[tuple[Place, Group]]:
        return [one for name in _called(place) for one in self._registered.get(name, ())]

    def _users(self, place: Place) -> set[Place]:
        path, name = place
        users = set().union(*(self._used_by.get(one, ()) for one in _called(place)))
        # A class is made of its methods: who uses the one may run the other.
        if (cls := name.rpartition(".")[0]) in self.modules[path].parts:
            users.add((path, cls))
        return users - {place}

    def _resolve(self, path: str, use: Use) -> set[Place]:
        """The parts that a name stands for in a module; any method of a name stands for itself."""
        return {("", use[1])} if use[0] == "" else self._in_module(path, use, set())

    def _in_module(self, path: str, names: Dotted, seen: set[tuple[str, Dotted]]) -> set[Place]:
        module = self.modules[path]
        if (path, names) in seen:
            return set()
        seen.add((path, names))
        found = {(path, name) for name in (names[0], ".".join(names[:2])) if name in module.parts}
        for target in module.imports.get(names[0], ()):
            found |= self._from_top(self._absolute(path, target) + names[1:], seen)
        for star in () if found else module.stars:
            found |= self._from_top(self._absolute(path, star) + names, seen)
        return found

    def _from_top(self, names: Dotted, seen: set[tuple[str, Dotted]]) -> set[Place]:
        for length in range(len(names), 0, -1):
            if paths := self._dotted.get(names[:length]):
                if not names[length:]:
                    self._handed_on |= paths
                    return set()
                return set().union(*(self._in_module(path, names[length:], seen) for path in paths))
        return set()

    def _absolute(self, path: str, target: Dotted) -> Dotted:
        level = next((number for number, name in enumerate(target) if name), len(target))
        if not level:
            return target
        here = _dotted(path)
        base = here if PurePosixPath(path).stem == "__init__" else here[:-1]
        return base[: len(base) - level + 1] + target[level:]


def _dotted(path: str) -> Dotted:
    """A module's name by its path from the top."""
    parts = PurePosixPath(path).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def _called(place: Place) -> tuple[Place, ...]:
    """What uses of a part are noted as: by its place, and a method's by its name, whatever the object."""
    return (place, ("", place[1].rpartition(".")[2])) if "." in place[1] else (place,)


def _words(place: Place) -> str:
    path, name = place
    return f"{name if name.replace('.', '').isidentifier() else 'a statement'} of {path}"
