"""Signatures of entry points, read from source by griffe: nothing of a release is imported or run.

What only running it would tell (native code, `__getattr__`, what another distribution brings) is left out,
which is not the same as being gone.
"""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ci.pins.record import Parameter, Signature

_SOURCE = re.compile(r"(?:[^/]+\.data/(?:purelib|platlib)/)?(([^/.]+)(?:/.+)?\.pyi?)")
# torch has 50 MiB of it.
_MOST_BYTES = 512 << 20
# A module that does so may have names that do not stand in it.
_DYNAMIC = re.compile(r"\bglobals\(\)|\bsys\.modules\[|^def __getattr__\(", re.MULTILINE)
# Bases that take no parameters.
_BARE = {"object", "typing.Generic", "typing.Protocol", "abc.ABC"}


class _UntoldError(Exception):
    """Only running the release would tell."""


def signatures(entries: Iterable[str], archive: zipfile.ZipFile) -> dict[str, Signature | None]:
    """Parameters by entry point, given as `module:name`; None for what the release does not have.

    Args:
        entries: one that only running the release would tell is left out.
        archive: a wheel, or another zip of modules.
    """
    paths = {entry: entry.replace(":", ".").split(".") for entry in entries}
    found: dict[str, Signature | None] = {}
    with TemporaryDirectory(prefix="spyre-ci-") as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is read, such as of an escape that is none
        modules = _loaded(archive, {path[0] for path in paths.values()}, Path(name))
        for entry, path in paths.items():
            try:
                one = _member(modules, path, Path(name))
                found[entry] = None if one is None else _signature(one)
            except _UNTOLD:
                continue
    return found


# What griffe raises of what it cannot follow, and of source that somebody made for this.
_UNTOLD = (
    _UntoldError,
    SyntaxError,
    ValueError,
    RecursionError,
    MemoryError,
    LookupError,
    AttributeError,
    TypeError,
)


def _loaded(archive: zipfile.ZipFile, tops: set[str], folder: Path) -> Any:
    """The packages of an archive, as griffe's collection of modules; one that cannot be read is not in it."""
    import griffe  # noqa: PLC0415  # an extra

    left = _MOST_BYTES
    for one in archive.infolist():
        matched = _SOURCE.fullmatch(one.filename)
        if matched and matched[2] in tops and (left := left - one.file_size) >= 0:
            one.filename = matched[1]
            archive.extract(one, folder)
    loader = griffe.GriffeLoader(search_paths=[folder], allow_inspection=False)
    with griffe.logger.disable():
        for top in tops:
            try:
                loader.load(top, try_relative_path=False)
                loader.resolve_aliases(implicit=True, external=False)
            except (ImportError, griffe.GriffeError, *_UNTOLD):
                continue
    return loader.modules_collection


def _member(modules: Any, path: list[str], folder: Path) -> Any:
    """What a dotted path names, wherever it is from; None: there is no such name."""
    one = modules
    for place, part in enumerate(path):
        there = one.all_members.get(part)
        if there is None:
            if any(folder.joinpath(*path[: place + 1]).parent.glob(f"{part}.py*")) or _may_have(one, part):
                raise _UntoldError
            return None
        one = _target(there)
    return one


def _target(one: Any) -> Any:
    import griffe  # noqa: PLC0415  # an extra

    try:
        return one.final_target if one.is_alias else one
    except griffe.GriffeError as error:
        raise _UntoldError from error  # another distribution's, or native


def _may_have(owner: Any, name: str) -> bool:
    """Whether a name may be there that does not stand in the source."""
    if owner.is_collection:
        return False
    if owner.is_class:
        return _has_unknown_base(owner)
    return (
        name in owner.overloads  # a stub of several signatures
        or any(key.endswith("/*") for key in owner.members)
        or bool(_DYNAMIC.search(owner.source))
    )


def _has_unknown_base(owner: Any) -> bool:
    known = [{one if isinstance(one, str) else one.canonical_path} <= _BARE for one in owner.bases]
    return known.count(False) > len(owner.resolved_bases) or any(map(_has_unknown_base, owner.resolved_bases))


def _signature(one: Any) -> Signature:
    if one.is_class:
        made = one.all_members.get("__init__") or one.all_members.get("__new__")
        if (made is None or made.is_alias or not made.lineno) and (_has_unknown_base(one) or one.overloads):
            raise _UntoldError
        if made is None and one.decorators:
            raise _UntoldError  # which may give it an `__init__`, as attrs does
        return () if made is None else _signature(_target(made))
    if not one.is_function:
        raise _UntoldError
    bound = one.parent.is_class and "staticmethod" not in one.labels
    return tuple(map(_parameter, list(one.parameters)[bound:]))


def _parameter(one: Any) -> Parameter:
    kind = one.kind.value if one.kind else "positional or keyword"
    # Of `*args` and `**kwargs` griffe says what they are when nothing is given.
    default = None if one.default is None or kind.startswith("variadic") else str(one.default)
    return Parameter(name=one.name, kind=kind, default=default)
