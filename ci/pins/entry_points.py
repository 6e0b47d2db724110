"""Signatures of entry points, read from source: nothing of what is looked at is imported or run.

A name is followed through imports, `from … import *`, plain assignments and base classes, as far as the
source of the release goes. What only running it would tell (native code, `__getattr__`, what another
distribution brings) is told by nobody here, which is not the same as being gone.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ci.pins.record import Parameter, ParameterKind
from ci.pins.signatures import Signature

if TYPE_CHECKING:  # an extra
    import griffe

# Of a dotted module its file in the release and the text of it; None where it has none.
Source = Callable[[str], tuple[Path, str] | None]
# Names that are looked up on the way to one; cycles, and what is made to have no end, end here.
_MOST_LOOKS = 500
_MOST_CHARACTERS = 8 << 20
# A module that does so may have names that do not stand in it.
_DYNAMIC = re.compile(r"\bglobals\(\)|\bsys\.modules\[")
_DYNAMIC_LABEL = "spyre-ci-dynamic"
_WILDCARD = "/*"
# Bases that take no parameters.
_BARE = {"object", "builtins.object", "typing.Generic", "typing.Protocol", "abc.ABC"}


class _UntoldError(Exception):
    """Only running the release would tell."""


def signatures(entries: Iterable[str], source: Source) -> dict[str, Signature | None]:
    """Parameters by entry point; None for what the release does not have.

    An entry point that only running the release would tell is left out.

    Args:
        entries: `module:name`.
        source: gives the modules of the release.
    """
    # Entry points are often of one package: each of its modules is read once.
    read = cache(partial(_read, source))
    found: dict[str, Signature | None] = {}
    for entry in entries:
        module, _, name = entry.partition(":")
        try:
            found[entry] = _Look(read).signature(module, name.split("."))
        except (_UntoldError, RecursionError):
            continue
    return found


def files_of(module: str) -> list[Path]:
    """Where a module's source may be, below a folder of the path; stubs of native modules last."""
    path = Path(*module.split("."))
    return [path / "__init__.py", path.with_suffix(".py"), path / "__init__.pyi", path.with_suffix(".pyi")]


class _Look:
    """The way to one entry point."""

    def __init__(self, read: Callable[[str], griffe.Module | None]) -> None:
        self._read = read
        self._modules: dict[str, griffe.Module | None] = {}
        self._left = _MOST_LOOKS

    def signature(self, module: str, names: Sequence[str]) -> Signature | None:
        top = self._module(module)
        found = None if top is None else self._member(top, names)
        return None if found is None else self._of(found)

    def _of(self, found: griffe.Object) -> Signature | None:
        if found.is_function:
            return self._of_function(cast("griffe.Function", found))
        if not found.is_class:
            raise _UntoldError
        made = self._member(found, ["__init__"]) or self._member(found, ["__new__"])
        if made is not None:
            return self._of(made)
        if cast("griffe.Class", found).decorators:
            raise _UntoldError  # which may give it an `__init__`, as attrs does
        return ()

    def _of_function(self, function: griffe.Function) -> Signature:
        owner = function.parent if function.parent is not None and function.parent.is_class else None
        # Of a dataclass the parameters are made of its own fields; those of its bases come before them.
        if owner is not None and not function.lineno and self._bases(cast("griffe.Class", owner)):
            raise _UntoldError
        bound = owner is not None and "staticmethod" not in function.labels
        return tuple(_parameter(one) for one in list(function.parameters)[bound:])

    def _member(self, owner: griffe.Object, names: Sequence[str]) -> griffe.Object | None:
        """What a name in a module or a class is, wherever it is from; None: there is no such name."""
        self._left -= 1
        if self._left < 0:
            raise _UntoldError
        if not names:
            return owner
        first, *rest = names
        one = owner.members.get(first)
        if one is None and first in cast("griffe.Module | griffe.Class", owner).overloads:
            raise _UntoldError  # a stub of several signatures
        found: griffe.Object | None
        if one is not None and one.is_alias:
            found = self._at(cast("griffe.Alias", one).target_path)
        elif one is not None and one.is_attribute:
            found = self._assigned(cast("griffe.Attribute", one))
        elif one is not None:
            found = cast("griffe.Object", one)
        elif owner.is_class:
            found = self._inherited(cast("griffe.Class", owner), first)
        else:
            found = self._elsewhere(cast("griffe.Module", owner), first)
        return None if found is None else self._member(found, rest)

    def _assigned(self, one: griffe.Attribute) -> griffe.Object | None:
        """What `name = other` names."""
        import griffe  # noqa: PLC0415  # an extra

        if not isinstance(one.value, griffe.ExprName | griffe.ExprAttribute) or one.parent is None:
            raise _UntoldError
        return self._named(str(one.value), cast("griffe.Object", one.parent))

    def _inherited(self, owner: griffe.Class, name: str) -> griffe.Object | None:
        for text in self._bases(owner):
            above = self._named(text, cast("griffe.Object", owner.parent))
            if not above.is_class:
                raise _UntoldError
            if (found := self._member(above, [name])) is not None:
                return found
        return None

    def _bases(self, owner: griffe.Class) -> list[str]:
        return [str(one).partition("[")[0] for one in owner.bases if _path(one) not in _BARE]

    def _named(self, text: str, scope: griffe.Object) -> griffe.Object:
        """What an expression such as `a.b` names where it stands."""
        names = text.split(".")
        found = self._member(scope, names) or (None if scope.is_module else self._member(scope.module, names))
        if found is None:
            raise _UntoldError  # a built-in
        return found

    def _elsewhere(self, owner: griffe.Module, name: str) -> griffe.Object | None:
        """A name that a module has without saying so: a module in it, or what a `*` brings."""
        if (below := self._module(f"{owner.path}.{name}")) is not None:
            return below
        stars = [
            cast("griffe.Alias", one).target_path
            for key, one in owner.members.items()
            if key.endswith(_WILDCARD)
        ]
        untold = "__getattr__" in owner.members or _DYNAMIC_LABEL in owner.labels
        for path in stars:
            module = self._module(path)
            if module is None:
                untold = True
            elif (found := self._member(module, [name])) is not None:
                return found
        if untold:
            raise _UntoldError
        return None

    def _at(self, path: str) -> griffe.Object:
        """What an import names: of the longest part of the path that is a module the rest."""
        parts = path.split(".")
        for end in range(len(parts), 0, -1):
            if (module := self._module(".".join(parts[:end]))) is not None:
                if (found := self._member(module, parts[end:])) is not None:
                    return found
                break
        raise _UntoldError  # another distribution's, or native: somebody imports it, so it is somewhere

    def _module(self, name: str) -> griffe.Module | None:
        if name not in self._modules:
            self._left -= 1
            if self._left < 0:
                raise _UntoldError
            self._modules[name] = self._read(name)
        return self._modules[name]


def _read(source: Source, name: str) -> griffe.Module | None:
    found = source(name)
    return None if found is None else _visited(name, *found)


def _visited(name: str, path: Path, text: str) -> griffe.Module:
    import griffe  # noqa: PLC0415  # an extra

    *above, last = name.split(".")
    parent = None
    # Relative imports are read from where a module stands in its package.
    for end, part in enumerate(above, start=1):
        parent = griffe.Module(part, filepath=Path(*above[:end], "__init__.py"), parent=parent)
    if len(text) > _MOST_CHARACTERS:
        raise _UntoldError
    try:
        with warnings.catch_warnings(), griffe.logger.disable():
            warnings.simplefilter("ignore")  # of theirs, such as of an escape that is none
            module = griffe.visit(last, path, text, parent=parent)
            griffe.DataclassesExtension().on_package(pkg=module)
    except (SyntaxError, ValueError, RecursionError, MemoryError, LookupError, AttributeError, TypeError,
            griffe.GriffeError) as error:  # fmt: skip
        raise _UntoldError from error
    if _DYNAMIC.search(text):
        module.labels.add(_DYNAMIC_LABEL)
    return module


def _path(name: griffe.Expr | str) -> str:
    try:
        return name if isinstance(name, str) else str(name.canonical_path)
    except (LookupError, ValueError, AttributeError, TypeError) as error:
        raise _UntoldError from error


def _parameter(one: griffe.Parameter) -> Parameter:
    kind: ParameterKind = one.kind.value if one.kind else "positional or keyword"
    # Of `*args` and `**kwargs` griffe says what they are when nothing is given.
    default = None if one.default is None or kind.startswith("variadic") else str(one.default)
    return Parameter(name=one.name, kind=kind, default=default)
