"""What a release breaks: calls of its entry points, and suites whose needs it does not meet; pure.

What breaks a call is what griffe says of two signatures; another default breaks none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from ci.config.pins_model import Suite
from ci.core.extras import wanted
from ci.pins.record import Record, Signature, Table, parsed
from ci.pins.words import named

# Between what several lines of metadata require of one package, and what any version is written as.
SEPARATOR, ANY = " | ", "*"
MAX_BREAK = 300
# By the name of griffe's kind of a breakage.
_BREAKS = {
    "PARAMETER_MOVED": "{} has moved",
    "PARAMETER_REMOVED": "{} was removed",
    "PARAMETER_CHANGED_KIND": "{} is now {kind}",
    "PARAMETER_CHANGED_REQUIRED": "{} no longer has a default",
    "PARAMETER_ADDED_REQUIRED": "{} is new and has no default",
}


class Unsupported(Table):
    """A suite that a release cannot support, and why, in words that are Markdown as well.

    Attributes:
        suite: its name.
        why: in words.
        certain: whether it cannot; else the record does not tell, and only people can.
    """

    suite: str
    why: tuple[str, ...]
    certain: bool = True


def broken(before: Signature, after: Signature) -> list[str]:
    """What of a call that the first signature takes the second does not, in words."""
    with wanted("a comparison of signatures needs", extra="pins"):
        import griffe  # noqa: PLC0415  # an extra

    modules = []
    for signature in (before, after):
        parameters = [
            # To griffe `*args` without a default were required.
            griffe.Parameter(
                one.name,
                kind=griffe.ParameterKind(one.kind),
                default="()" if one.kind.startswith("variadic") else one.default,
            )
            for one in signature
        ]
        module = griffe.Module("module")
        module.set_member("call", griffe.Function("call", parameters=griffe.Parameters(*parameters)))
        modules.append(module)
    found = []
    for one in griffe.find_breaking_changes(*modules):
        parameter: griffe.Parameter = one.new_value or one.old_value
        if words := _BREAKS.get(one.kind.name):
            found.append(words.format(parameter.name, kind=parameter.kind and parameter.kind.value))
    return found


def broken_calls(calls: Sequence[str], before: Record | None, after: Record) -> Iterator[str]:
    """What a caller of entry points loses; one that was not read in both releases says nothing."""
    if before is None:
        return
    for call in calls:
        old, new = before.signatures.get(call), after.signatures.get(call)
        if old is None or call not in after.signatures:
            continue
        if new is None:
            yield f"{named(call)} was removed"
        else:
            yield from (f"{named(call)}: {named(one, MAX_BREAK)}" for one in broken(old, new))


def unsupported(suites: Sequence[Suite], before: Record | None, after: Record) -> tuple[Unsupported, ...]:
    """The suites whose needs a release does not meet, or whose calls it breaks.

    Those of which the record does not tell are among them, and are not certain.

    Args:
        suites: of the track.
        before: what is pinned; None where nothing is, or nobody has recorded it: then no call is compared.
        after: the release.
    """
    found = []
    for suite in suites:
        unmet = list(_unmet(suite, after))
        lost = [words for words, certain in unmet if certain]
        lost += broken_calls(suite.calls, before, after)
        if why := lost or [words for words, _ in unmet]:
            found.append(Unsupported(suite=suite.name, why=tuple(why), certain=bool(lost)))
    return tuple(found)


def _unmet(suite: Suite, after: Record) -> Iterator[tuple[str, bool]]:
    """What is not met, in words, and whether that is certain."""
    for text in suite.needs:
        need = Requirement(text)
        there = after.packages.get(canonicalize_name(need.name))
        if there is None:
            yield f"needs {named(text)}, which the release does not have", True
            continue
        met = [meets(one, need.specifier) for one in there.split(SEPARATOR)]
        if True not in met:
            yield f"needs {named(text)}, but the release has {named(there)}", None not in met


def meets(there: str, need: SpecifierSet) -> bool | None:
    """Whether a version, or any version of a range as metadata has it, is in the range that is needed.

    None for what shows no version, such as an address.
    """
    version = parsed(there)
    if version is not None:
        return need.contains(version, prereleases=True)
    try:
        given = Requirement(f"x {'' if there == ANY else there}")
    except InvalidRequirement:
        return None
    return None if given.url is not None else not (given.specifier & need).is_unsatisfiable()
