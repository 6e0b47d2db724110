"""What a change of source code says of tests: which files, ops and functions differ, or anything may."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import PurePosixPath

from ci.changes.module_uses import Package, Place
from ci.changes.python_module import Module, Part, read_module
from ci.changes.source_change import SourceChange
from test_selection.change import WHOLE_FILE, Evidence
from test_selection.op_map import OpMap, family, is_function
from test_selection.patterns import compile_glob

# Python files that decide how the rest is built or run.
_BUILD = frozenset({"setup.py", "conftest.py", "noxfile.py", "sitecustomize.py"})
# Statements of which a registration is all.
_ONLY_GROUPS = ("Expr(", "Assign(", "AugAssign(", "AnnAssign(")
_CACHES = ("cache", "lru_cache", "cached_property")


def find_evidence(
    change: SourceChange, op_map: OpMap, *, tests: str, test_files: Iterable[str], docs: Sequence[str]
) -> Evidence:
    """Find what a change says of tests.

    Args:
        change: the change.
        op_map: what each test calls, by which an op's name is known.
        tests: the tests' folder, from the repository's top; empty where the tests lie elsewhere.
        test_files: the files of tests, from that folder.
        docs: globs of files that no test is about.

    Returns:
        The evidence. `everything` holds a reason for each file of which it cannot be told: it is not Python,
        does not parse, or holds what is not resolved to ops, tests or functions that were traced.
    """
    return _Finder(change, op_map, tests, frozenset(test_files), docs).find()


class _Finder:
    def __init__(
        self, change: SourceChange, op_map: OpMap, tests: str, test_files: frozenset[str], docs: Sequence[str]
    ) -> None:
        self._change, self._tests, self._test_files = change, tests, test_files
        self._docs = [compile_glob(one) for one in docs]
        self._known = frozenset(family(op) for op in op_map.ops if not is_function(op))
        self._functions = frozenset(filter(is_function, op_map.ops))
        self._found = Evidence()

    def find(self) -> Evidence:
        package: list[str] = []
        for path in self._change.files:
            below = (
                path.removeprefix(f"{self._tests}/")
                if self._tests and path.startswith(f"{self._tests}/")
                else None
            )
            if below in self._test_files:
                self._found.files[below] = f"{path} changed"
            elif not path.endswith(".py"):
                if not any(glob.search(path) for glob in self._docs):
                    self._found.everything.append(f"{path} is no Python source")
            elif PurePosixPath(path).name in _BUILD:
                self._found.everything.append(f"{path} decides how tests are built or run")
            elif below is not None:
                self._helper(path, below)
            elif _is_own_test(path):
                continue
            elif path.startswith("torch/"):
                self._of_torch(path)
            else:
                package.append(path)
        if package:
            self._of_package(package)
        return self._found

    def _helper(self, path: str, below: str) -> None:
        """A module of the tests' folder: the test files that import it, however far."""
        using = self._using.get(below, set())
        if not using:
            self._found.everything.append(f"no test file is known to import {path}")
        self._found.helpers.update(dict.fromkeys(sorted(using), f"imports {path}"))

    @cached_property
    def _using(self) -> dict[str, set[str]]:
        """By module of the tests' folder, the test files that import it, however far."""
        files = self._change.python_files(self._change.head, self._tests)
        read = {
            path.removeprefix(f"{self._tests}/"): _parsed(content, None) for path, content in files.items()
        }
        package = Package({path: module or Module() for path, module in read.items()})
        # Of one that does not parse it is not known what it imports.
        direct = {path: package.imported(path) if module else set(read) for path, module in read.items()}
        found: dict[str, set[str]] = {}
        for file in self._test_files:
            waiting, seen = [file], {file}
            while waiting:
                new = direct.get(waiting.pop(), set()) - seen
                seen |= new
                waiting.extend(new)
            for path in seen - {file}:
                found.setdefault(path, set()).add(file)
        return found

    def _of_torch(self, path: str) -> None:
        """A module of PyTorch: the functions that differ; for what runs once a process, the whole file."""
        old, new = (
            _parsed(self._change.python_files(tree, path).get(path), self._known.__contains__)
            for tree in (self._change.base, self._change.head)
        )
        if not any(one.startswith(f"{path}:") for one in self._functions):
            self._found.everything.append(f"{path} has no function that a test was seen to call")
        elif old is None or new is None:
            self._found.everything.append(f"{path} is new, gone, or does not parse")
        else:
            once = set()
            for name in _differing(old, new):
                if f"{path}:{name}" in self._functions and not _runs_once(name, old, new):
                    self._found.functions[f"{path}:{name}"] = f"{name} of {path} changed"
                else:
                    once.add(name)
            if once or old.stars != new.stars:
                self._found.functions[f"{path}:{WHOLE_FILE}"] = f"what {path} does at import changed"

    def _of_package(self, paths: Sequence[str]) -> None:
        """Modules of the back end: the ops that the parts which differ serve, before the change and after."""
        trees = [self._change.python_files(tree) for tree in (self._change.base, self._change.head)]
        read = [
            {
                path: module
                for path, content in files.items()
                if (module := _parsed(content, self._known.__contains__))
            }
            for files in trees
        ]
        for path in paths:
            if not any(path in files for files in trees):
                self._found.everything.append(f"{path} is no plain file")
            for files, modules in zip(trees, read, strict=True):
                if path in files and path not in modules:
                    self._found.everything.append(f"{path} does not parse")
        for this, other in (read, read[::-1]):
            package = Package(this)
            changed = [
                place
                for path in paths
                if path in this
                for place in self._parts(package, path, other.get(path))
            ]
            reach = package.reach(changed)
            self._found.everything.extend(reach.unresolved)
            self._found.ops.update(reach.ops)
        for op in sorted(self._found.ops.keys() - self._known):
            self._found.everything.append(f"no test is known to call {op}, which changed")

    def _parts(self, package: Package, path: str, other: Module | None) -> list[Place]:
        """The parts of a module that differ from its other version; ops of registrations are noted."""
        module = package.modules[path]
        if other is None:
            if not module.parts:
                self._found.everything.append(f"{path} is new or gone, and contains nothing")
            return [(path, name) for name in module.parts]
        found = []
        for name in _differing(module, other, both=False):
            part, before = module.parts[name], other.parts.get(name)
            if part.groups and (before.rest == part.rest if before else part.text.startswith(_ONLY_GROUPS)):
                ops = package.looked_up((path, name)).union(
                    *(group.ops for group in part.groups if before is None or group not in before.groups)
                )
                self._found.ops.update(dict.fromkeys(ops, f"its registration in {path} changed"))
            else:
                found.append((path, name))
        if module.stars != other.stars:
            self._found.everything.append(f"{path} imports all of another module")
        if _at_import(module, other) != _at_import(other, module):
            self._found.everything.append(f"{path} does at import the same in another order")
        return found


def _at_import(module: Module, other: Module) -> list[str]:
    """The parts that do something at import, in order, of those that another version has too."""
    return [name for name, part in module.parts.items() if name in other.parts and (part.runs or part.groups)]


def _differing(module: Module, other: Module, *, both: bool = True) -> list[str]:
    """The parts of a module that another version of it has otherwise, or not; with `both`, of either."""
    names = module.parts.keys() | (other.parts.keys() if both else set())
    return sorted(
        name
        for name in names
        if name not in module.parts
        or name not in other.parts
        or module.parts[name].text != other.parts[name].text
    )


def _runs_once(name: str, *modules: Module) -> bool:
    """True if a part of torch may run but once a process: at import, or because its result is kept."""
    for module in modules:
        if name in module.parts and not _is_function(module.parts[name]):
            return True
        if name in module.parts and any(f"'{one}'" in module.parts[name].text for one in _CACHES):
            return True
        # What a function keeps in a global name, the next test finds there.
        outside = (part for part in module.parts.values() if not _is_function(part) or "Global(" in part.text)
        if any(f"Call(func=Name(id={name!r}," in part.text for part in outside):
            return True
    return False


def _is_function(part: Part) -> bool:
    return part.text.startswith(("FunctionDef", "AsyncFunctionDef"))


def _is_own_test(path: str) -> bool:
    """True for the back end's tests of itself, which are not those that are selected."""
    *folders, name = PurePosixPath(path).parts
    return name.startswith("test_") or not {"test", "tests"}.isdisjoint(folders)


def _parsed(content: bytes | None, known: Callable[[str], bool] | None) -> Module | None:
    try:
        return None if content is None else read_module(content, known)
    except (SyntaxError, ValueError, RecursionError):
        return None
