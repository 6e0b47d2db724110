"""Package lists: read from what `pip freeze` prints and from metadata, and compared; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from ci.core.addresses import without_credentials
from ci.core.errors import BadFileError
from ci.pins.record import Change
from ci.pins.releases import parsed

UNKNOWN = "unknown"
ANY = "*"
# Between what several lines of metadata require of one package, each perhaps under a condition of its own.
SEPARATOR = " | "
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_PINNED = re.compile(rf"({_NAME})\s*===?\s*(\S+)")
_DIRECT = re.compile(rf"({_NAME})\s*(?:\[[^\]]*\])?\s*@\s*(\S.*)")
_EDITABLE = re.compile(r"(?:-e|--editable)[\s=]\s*(\S.*)")
_EGG = re.compile(rf"[#&]egg=({_NAME})")
# What pip says before a line that has a path alone.
_OF_EDITABLE = re.compile(rf"#.*\(({_NAME})==(\S+)\)")
# From here on an sdist can say that what it requires is what its wheel will (PEP 643).
_SAYS_WHAT_IS_FINAL = Version("2.2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Packages:
    """What is installed, or required.

    Attributes:
        versions: by canonical name.
        origins: of those from no index, without credentials.
        unread: lines that name no package.
    """

    versions: dict[str, str]
    origins: dict[str, str] = field(default_factory=dict)
    unread: tuple[str, ...] = ()


def parse_freeze(text: str, known: Mapping[str, str]) -> Packages:
    """What `pip freeze` lists.

    Args:
        text: that it printed.
        known: versions by canonical name, for lines that tell where a package is from and no version.
    """
    versions: dict[str, str] = {}
    origins: dict[str, str] = {}
    unread: list[str] = []
    said = None
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("#"):
            said = _OF_EDITABLE.match(line) or said
        elif found := _EDITABLE.fullmatch(line):
            name, version = _of_editable(found[1], said)
            said = None
            if name:
                versions[name] = version or known.get(name, UNKNOWN)
                origins[name] = f"editable {without_credentials(found[1])}"
            else:
                unread.append(line)
        elif found := _PINNED.fullmatch(line):
            versions[canonicalize_name(found[1])] = found[2]
        elif found := _DIRECT.fullmatch(line):
            name = canonicalize_name(found[1])
            versions[name] = known.get(name, UNKNOWN)
            origins[name] = without_credentials(found[2])
        elif not line.startswith("-"):  # options of pip, which freeze hands on, are no packages
            unread.append(line)
    return Packages(versions=versions, origins=origins, unread=tuple(map(without_credentials, unread)))


def _of_editable(place: str, said: re.Match[str] | None) -> tuple[str, str]:
    """Name and version of what is editable, as far as the line or the remark before it tells them."""
    if found := _EGG.search(place):
        return canonicalize_name(found[1]), ""
    return (canonicalize_name(said[1]), said[2]) if said else ("", "")


def parse_metadata(data: bytes, *, name: str, version: Version, where: str) -> Packages:
    """What a release of a package requires, and itself by its version.

    Args:
        data: METADATA of a wheel, or PKG-INFO of an sdist.
        name: the canonical name of the package.
        version: of the release.
        where: it was read, for errors.

    Raises:
        BadFileError: it is of another package or release, or of none.
    """
    raw, _ = parse_email(data)
    told = raw.get("name", ""), raw.get("version", "")
    if canonicalize_name(told[0]) != name or parsed(told[1]) != version:
        raise BadFileError(
            f"its metadata is of {told[0][:80]!r} {told[1][:80]!r}, not of {name} {version}",
            where=where,
            remedy="find out what made it; it is not recorded",
        )
    wanted: dict[str, list[str]] = {name: [told[1].strip()]}
    origins: dict[str, str] = {}
    unread = []
    for line in raw.get("requires_dist", []):
        try:
            one = Requirement(line)
        except InvalidRequirement:
            unread.append(without_credentials(line))
            continue
        key = canonicalize_name(one.name)
        if key == name:  # `demo[all]` of itself is no other version
            continue
        wanted.setdefault(key, []).append(without_credentials(str(one)[len(one.name) :].strip()) or ANY)
        if one.url:
            origins[key] = without_credentials(one.url)
    return Packages(
        versions={key: SEPARATOR.join(lines) for key, lines in wanted.items()},
        origins=origins,
        unread=tuple(unread),
    )


def is_final(data: bytes) -> bool:
    """Whether what an sdist's PKG-INFO requires is what its wheel will require."""
    raw, _ = parse_email(data)
    told = parsed(raw.get("metadata_version", ""))
    dynamic = {one.lower() for one in raw.get("dynamic", [])}
    return told is not None and told >= _SAYS_WHAT_IS_FINAL and "requires-dist" not in dynamic


def changes(
    names: Iterable[str], before: Mapping[str, str | None], after: Mapping[str, str | None]
) -> tuple[Change, ...]:
    """What became of packages, by name; those of which nothing did are left out.

    Args:
        names: canonical.
        before: versions by name; None as where there is none.
        after: the same, later.
    """
    return tuple(
        Change(name=name, before=before.get(name), after=after.get(name))
        for name in sorted(set(names))
        if before.get(name) != after.get(name)
    )
