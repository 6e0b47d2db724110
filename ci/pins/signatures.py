"""Two signatures of one entry point: what of the difference breaks a caller, and what does not; pure.

A caller is whoever called the earlier one as it allows to be called. Defaults are compared as they are
written: another one breaks no call, and is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ci.pins.record import Parameter, ParameterKind

Signature = tuple[Parameter, ...]
_POSITIONAL: frozenset[ParameterKind] = frozenset({"positional-only", "positional or keyword"})
_NAMED: frozenset[ParameterKind] = frozenset({"positional or keyword", "keyword-only"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Something that is otherwise than before.

    Attributes:
        text: what, for people.
        breaks: whether a call that was right no longer is, or gives a value to another parameter.
    """

    text: str
    breaks: bool


def compare(before: Signature | None, after: Signature | None) -> tuple[Difference, ...]:
    """What became of an entry point; nothing where its callers need not know.

    Args:
        before: its parameters; None: it was not there.
        after: the same, later.
    """
    if before is None or after is None:
        if before == after:
            return ()
        return (Difference(text="is gone" if after is None else "is new", breaks=after is None),)
    return (*_of_positions(before, after), *_of_keywords(before, after), *_of_rest(before, after))


def shown(signature: Signature | None) -> str:
    """A signature as it is written in Python."""
    if signature is None:
        return "(gone)"
    words: list[str] = []
    for number, one in enumerate(signature):
        kinds = {earlier.kind for earlier in signature[:number]}
        if one.kind != "positional-only" and "positional-only" in kinds and "/" not in words:
            words.append("/")
        if one.kind == "keyword-only" and not kinds & {"keyword-only", "variadic positional"}:
            words.append("*")
        stars = {"variadic positional": "*", "variadic keyword": "**"}.get(one.kind, "")
        words.append(f"{stars}{one.name}" + ("" if one.default is None else f"={one.default}"))
    if signature and signature[-1].kind == "positional-only":
        words.append("/")
    return f"({', '.join(words)})"


def _of_positions(before: Signature, after: Signature) -> Iterator[Difference]:
    """Parameters that could be given by position."""
    now = _positional(after)
    names = {one.name for one in after if one.kind in _NAMED}
    known = {one.name for one in before if one.kind in _NAMED}
    swallows, swallows_named = _has(after, "variadic positional"), _has(after, "variadic keyword")
    for place, old in enumerate(_positional(before)):
        by_name = old.kind in _NAMED
        if place < len(now) and (now[place].name == old.name or not (by_name or now[place].name in known)):
            yield from _of_one(old, now[place], by_name=by_name)
        elif by_name and old.name in names:
            where = "stands elsewhere" if any(one.name == old.name for one in now) else "is keyword-only now"
            yield Difference(text=f"{old.name} {where}", breaks=True)
        else:
            rest = place >= len(now) and swallows and (swallows_named or not by_name)
            yield Difference(text=f"{old.name} is gone", breaks=not rest)


def _of_one(old: Parameter, new: Parameter, *, by_name: bool) -> Iterator[Difference]:
    """A parameter and what stands in its place."""
    if new.name != old.name:
        yield Difference(text=f"{old.name} is called {new.name} now", breaks=False)
    if by_name and new.kind == "positional-only":
        yield Difference(text=f"{old.name} is positional-only now", breaks=True)
    if old.default is not None and new.default is None:
        yield Difference(text=f"{new.name} has no default any more", breaks=True)
    elif old.default != new.default:
        yield Difference(
            text=f"the default of {new.name} is {new.default}, and was {old.default or 'none'}", breaks=False
        )


def _of_keywords(before: Signature, after: Signature) -> Iterator[Difference]:
    """Parameters that could be given by name alone."""
    named = {one.name: one for one in after if one.kind in _NAMED}
    for old in before:
        if old.kind != "keyword-only":
            continue
        new = named.get(old.name)
        if new is None:
            yield Difference(text=f"{old.name} is gone", breaks=not _has(after, "variadic keyword"))
            continue
        if new.kind != "keyword-only" and _has(before, "variadic positional"):
            yield Difference(text=f"{old.name} takes what went into *args", breaks=True)
        yield from _of_one(old, new, by_name=True)


def _of_rest(before: Signature, after: Signature) -> Iterator[Difference]:
    """Parameters that are new, and those that take whatever there is."""
    known = {one.name for one in before if one.kind in _NAMED}
    stood = _positional(before)
    in_place_of_args = _has(before, "variadic positional")
    for place, one in enumerate(_positional(after)):
        old = stood[place] if place < len(stood) else None
        # What stands where a positional-only parameter stood is that one.
        same = old is not None and (old.kind == "positional-only" or old.name == one.name)
        if same or (one.kind in _NAMED and one.name in known):
            continue
        if one.default is None:
            yield Difference(text=f"{one.name} is new and has no default", breaks=True)
        elif in_place_of_args:
            yield Difference(text=f"{one.name} is new and takes what went into *args", breaks=True)
        else:
            yield Difference(text=f"{one.name} is new", breaks=False)
    for one in after:
        if one.kind == "keyword-only" and one.name not in known:
            needed = one.default is None
            yield Difference(
                text=f"{one.name} is new{' and has no default' if needed else ''}", breaks=needed
            )
    for kind, what in (("variadic positional", "*args"), ("variadic keyword", "**kwargs")):
        was, now = _has(before, kind), _has(after, kind)
        if was != now:
            yield Difference(text=f"takes {'no more' if was else 'any'} {what}", breaks=was)


def _positional(signature: Signature) -> list[Parameter]:
    return [one for one in signature if one.kind in _POSITIONAL]


def _has(signature: Signature, kind: str) -> bool:
    return any(one.kind == kind for one in signature)
