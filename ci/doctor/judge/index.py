"""Package indexes: which of them has the torch that is pinned, and what is wrong with the others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from packaging.tags import Tag
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from ci.core.text import shell_line
from ci.doctor.finding import Finding, Level, ok

INDEX = "index"
# has: the pin for this Python. other: the pin, for others. lacks: torch, not the pin. none: no torch.
# login, away, odd: it was asked in vain.
State = Literal["has", "other", "lacks", "none", "login", "away", "odd"]
_NAME = re.compile(r">\s*([^<>\s]{1,300}\.(?:whl|tar\.gz|zip))\s*</a", re.IGNORECASE)
_ASKED_IN_VAIN = ("login", "away", "odd")
# What a file system takes, and some dozens of times what wheels have.
_MAX_NAME, _MAX_TAGS = 255, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFacts:
    """One index, or one folder of packages.

    Attributes:
        shown: its address without what may be secret.
        state: what it has, or why that is not known.
        why: more of that, in its own words.
        signed_in: whether its address holds a user, so that a refusal is of that one.
        setting: that names it.
    """

    shown: str
    state: State
    why: str = ""
    signed_in: bool = False
    setting: str = "index-url"


def state_of(names: Iterable[str], pin: str, tags: Iterable[Tag]) -> State:
    """What files of torch come to.

    Args:
        names: of files; those of other projects, and what is no package, do not count.
        pin: the version that is wanted; empty: any will do.
        tags: of wheels that can be installed here.
    """
    usable, wanted = set(tags), Version(pin).public if pin else ""
    state: State = "none"
    for version, one in filter(None, map(_parsed, names)):
        if wanted and version.public != wanted:
            state = "lacks" if state == "none" else state
        elif one is None or usable & one:
            return "has"
        else:
            state = "other"
    return state


def names_of(page: str) -> list[str]:
    """The names of files that a page of a simple index links to (PEP 503)."""
    return _NAME.findall(page)


def judge_indexes(
    indexes: Sequence[IndexFacts], *, pin: str, installs: bool, note: str = ""
) -> list[Finding]:
    """Whether pip finds the torch that is pinned.

    Args:
        indexes: pip's, in its order.
        pin: the version; empty: unknown.
        installs: whether `nox -s pytorch` installs it, so that a run cannot do without.
        note: what else is to be said of how they were found.
    """
    wanted = f"torch {pin}" if pin else "torch"
    having = [one for one in indexes if one.state == "has"]
    if having:
        asked = f" ({len(indexes)} places asked)" if len(indexes) > 1 else ""
        first = ok(INDEX, f"{wanted} is to be had of {having[0].shown}{asked}{note}")
        # pip goes on without one that does not answer, and tries it again for long first.
        return [first, *(_bad(one, Level.WARNING) for one in indexes if one.state in _ASKED_IN_VAIN)]
    level = Level.FAULT if installs else Level.WARNING
    if not indexes:
        return [
            Finding(
                look=INDEX,
                level=level,
                said=f"pip is told to ask no index{note}",
                remedy="unset PIP_NO_INDEX",
            )
        ]
    wrong = [_bad(one, level) for one in indexes if one.state in _ASKED_IN_VAIN]
    return wrong + [
        _lacking(one, wanted, Level.WARNING if wrong else level)
        for one in indexes
        if one.state not in _ASKED_IN_VAIN
    ]


def judge_broken(why: str, *, installs: bool, python: str) -> Finding:
    """A pip that cannot use its own settings, and so installs nothing from anywhere.

    Args:
        why: as it says.
        installs: whether `nox -s pytorch` calls it.
        python: the interpreter, for the remedy.
    """
    look = shell_line([python, "-m", "pip", "config", "list"])
    return Finding(
        look=INDEX,
        level=Level.FAULT if installs else Level.WARNING,
        said=f"pip cannot use its settings: {why}",
        remedy=f"mend the file or the variable it names, until this ends well: {look}",
    )


def judge_own(indexes: Sequence[IndexFacts]) -> list[Finding]:
    """Whether the indexes answer that the settings publish to; what they have does not matter."""
    return [
        _bad(one, Level.FAULT)
        if one.state in _ASKED_IN_VAIN
        else ok(INDEX, f"{one.shown} of {one.setting} answers")
        for one in indexes
    ]


def _bad(one: IndexFacts, level: Level) -> Finding:
    where = f"{one.shown} ({one.setting})"
    if one.state == "login":
        if one.signed_in:
            said, remedy = (
                f"refuses the login in its address{one.why and ': '}{one.why}",
                f"mend the user or password of {one.setting}",
            )
        else:
            said, remedy = (
                f"shows nothing without a login{one.why and ': '}{one.why}",
                "put one that may read into ~/.netrc",
            )
    elif one.state == "odd":
        said, remedy = f"is no package index: {one.why}", f"check the address of {one.setting}"
    else:
        said, remedy = (
            f"cannot be used: {one.why}",
            f"check the network, the proxy and the address of {one.setting}",
        )
    return Finding(look=INDEX, level=level, said=f"{where} {said}", remedy=remedy)


def _lacking(one: IndexFacts, wanted: str, level: Level) -> Finding:
    said = {
        "other": f"has {wanted}, and no wheel of it for this Python and machine",
        "lacks": f"has torch, and not {wanted}",
    }.get(one.state, "has no torch")
    remedy = "name an index that has it: pip config set global.extra-index-url URL"
    if one.state == "other":
        remedy = (
            "use a Python that it has one for, or name an index: pip config set global.extra-index-url URL"
        )
    return Finding(look=INDEX, level=level, said=f"{one.shown} ({one.setting}) {said}", remedy=remedy)


def _parsed(name: str) -> tuple[Version, frozenset[Tag] | None] | None:
    # A name stands for each pair of its tags: one that somebody made to have millions is no wheel of torch.
    if len(name) > _MAX_NAME or prod(one.count(".") + 1 for one in name.split("-")[-3:]) > _MAX_TAGS:
        return None
    try:
        if name.endswith(".whl"):
            project, version, _, tags = parse_wheel_filename(name)
            return (version, tags) if project == "torch" else None
        project, version = parse_sdist_filename(name)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None
    return (version, None) if project == "torch" else None
