"""Which suites and experiments a release cannot support; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from ci.config.pins_model import Suite
from ci.pins.record import Parameter, Record, Table
from ci.pins.releases import parsed
from ci.pins.words import named

Signature = tuple[Parameter, ...]
# What of a call that the first takes the second does not, in words.
Breaks = Callable[[Signature, Signature], Sequence[str]]
# Of what breaks, characters.
MAX_BREAK = 300


class Unsupported(Table):
    """A suite that a release cannot support, and why: words that are Markdown as well."""

    suite: str
    why: tuple[str, ...]


def unsupported(
    suites: Sequence[Suite], before: Record | None, after: Record, breaks: Breaks
) -> tuple[Unsupported, ...]:
    """The suites whose needs a release does not meet, or whose calls it breaks, in their order.

    Args:
        suites: of the track.
        before: what is pinned; None where nothing is, or nobody has recorded it: then no call is compared.
        after: the release.
        breaks: of two signatures, what a caller of the first cannot do with the second.
    """
    found = []
    for suite in suites:
        why = [*_unmet(suite, after), *broken_calls(suite.calls, before, after, breaks)]
        if why:
            found.append(Unsupported(suite=suite.name, why=tuple(why)))
    return tuple(found)


def broken_calls(calls: Sequence[str], before: Record | None, after: Record, breaks: Breaks) -> Iterator[str]:
    """What of entry points a caller loses; one that only one of the two was looked at for says nothing."""
    if before is None:
        return
    for call in calls:
        old, new = before.signatures.get(call), after.signatures.get(call)
        if old is None or call not in after.signatures:
            continue
        if new is None:
            yield f"{named(call)} is gone"
        else:
            yield from (f"{named(call)}: {named(one, MAX_BREAK)}" for one in breaks(old, new))


def _unmet(suite: Suite, after: Record) -> Iterator[str]:
    for text in suite.needs:
        need = Requirement(text)
        there = after.packages.get(canonicalize_name(need.name))
        if there is None:
            yield f"needs {named(text)}, which it does not have"
        elif not _meets(there, need.specifier):
            yield f"needs {named(text)}, and it has {named(there)}"


def _meets(there: str, need: SpecifierSet) -> bool:
    """Whether a version, or any version of a range as metadata has it, is one of those that are needed.

    What is neither, such as an address, cannot be shown to be one.
    """
    version = parsed(there)
    if version is not None:
        return need.contains(version, prereleases=True)
    try:
        given = SpecifierSet(there)
    except InvalidSpecifier:
        return False
    both = given & need
    return any(both.contains(one, prereleases=True) for one in _corners(both))


def _corners(ranges: SpecifierSet) -> Iterator[Version]:
    """Every version at which a range begins or ends, one just above each, and the lowest of all.

    Where two ranges have anything in common, they have one of these.
    """
    yield Version("0")
    for one in ranges:
        version = parsed(one.version.removesuffix(".*"))
        if version is not None:
            yield version
            yield Version(f"{version.base_version}.0.0.1")
