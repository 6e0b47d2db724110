"""Which suites and experiments a release cannot support; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from ci.config.pins_model import Suite
from ci.pins.packages import ANY, SEPARATOR
from ci.pins.record import Record, Table
from ci.pins.releases import parsed
from ci.pins.signatures import Signature
from ci.pins.words import named

# What of a call that the first takes the second does not, in words.
Breaks = Callable[[Signature, Signature], Sequence[str]]
# Of what breaks, characters.
MAX_BREAK = 300


class Unsupported(Table):
    """A suite that a release cannot support, and why: words that are Markdown as well.

    Attributes:
        suite: its name.
        why: in words.
        certain: whether it cannot; else the record does not tell, and only people can.
    """

    suite: str
    why: tuple[str, ...]
    certain: bool = True


def unsupported(
    suites: Sequence[Suite], before: Record | None, after: Record, breaks: Breaks
) -> tuple[Unsupported, ...]:
    """The suites whose needs a release does not meet, or whose calls it breaks, in their order.

    Those of which that cannot be told are among them, and are not certain.

    Args:
        suites: of the track.
        before: what is pinned; None where nothing is, or nobody has recorded it: then no call is compared.
        after: the release.
        breaks: of two signatures, what a caller of the first cannot do with the second.
    """
    found = []
    for suite in suites:
        unmet = list(_unmet(suite, after))
        lost = [words for words, certain in unmet if certain]
        lost += broken_calls(suite.calls, before, after, breaks)
        why = lost or [words for words, _ in unmet]
        if why:
            found.append(Unsupported(suite=suite.name, why=tuple(why), certain=bool(lost)))
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


def _unmet(suite: Suite, after: Record) -> Iterator[tuple[str, bool]]:
    """What is not met, in words, and whether that is certain."""
    for text in suite.needs:
        need = Requirement(text)
        there = after.packages.get(canonicalize_name(need.name))
        if there is None:
            yield f"needs {named(text)}, which it does not have", True
            continue
        met = [_meets(one, need.specifier) for one in there.split(SEPARATOR)]
        if True not in met:
            yield f"needs {named(text)}, and it has {named(there)}", None not in met


def _meets(there: str, need: SpecifierSet) -> bool | None:
    """Whether a version, or any version of a range as metadata has it, is one of those that are needed.

    Args:
        there: a version, or what stands behind a name in metadata: extras, a range, a marker.
        need: the range that is needed.

    Returns:
        None for what shows no version, such as an address.
    """
    version = parsed(there)
    if version is not None:
        return need.contains(version, prereleases=True)
    try:
        given = Requirement(f"x {'' if there == ANY else there}")
    except InvalidRequirement:
        return None
    if given.url is not None:
        return None
    both = given.specifier & need
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
