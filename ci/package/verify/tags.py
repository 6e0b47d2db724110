"""Whether a wheel's tags say what is in it: pure Python, or binaries and for which Python and platform."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from email.message import Message
from fnmatch import fnmatchcase
from typing import Any

from packaging.tags import Tag, parse_tag

from ci.core.findings import Finding, judged
from ci.package.artifacts import Artifact, Contents

_BINARY = re.compile(r"\.(so(\.[0-9.]+)?|pyd|dylib|dll)$")
# As CPython names extensions: ops.cpython-312-x86_64-linux-gnu.so
_FOR_PYTHON = re.compile(r"\.cpython-(\d+)[^/]*\.so$")
_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_(\w+)")
_LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


def binaries_of(contents: Contents) -> list[str]:
    """The binaries in a wheel."""
    return [member.name for member in contents.members if _BINARY.search(member.name)]


def check_tags(one: Artifact, contents: Contents) -> list[Finding]:
    """Whether name, WHEEL file and binaries of a wheel agree."""
    binaries = binaries_of(contents)
    wheel = contents.wheel or Message()
    stated = {tag for row in wheel.get_all("Tag", []) for tag in parse_tag(str(row))}
    pure = str(wheel.get("Root-Is-Purelib", "")).lower()
    anywhere = one.platforms == {"any"}
    seen = f"{'-'.join(one.filename.removesuffix('.whl').split('-')[2:])}, {len(binaries)} binaries"
    return [
        judged(
            "wheel tags",
            seen if stated == one.tags else f"the name says {_tags(one.tags)}, WHEEL says {_tags(stated)}",
            holds=stated == one.tags,
            remedy="build the wheel again; it is renamed by `wheel tags`, not by hand",
        ),
        judged(
            "wheel platform",
            seen,
            holds=anywhere != bool(binaries) and (pure == "true") == (not binaries),
            remedy="a wheel with binaries has a platform's tag and no other has: check ext_modules",
        ),
        _python(one, binaries),
    ]


def check_linux(one: Artifact, shown: str, *, excluded: Sequence[str], wants_manylinux: bool) -> Finding:
    """Whether a Linux wheel runs where its tag says, by what auditwheel saw.

    Args:
        one: the wheel.
        shown: what `auditwheel show --json` printed.
        excluded: globs of libraries that are found at run time.
        wants_manylinux: whether the index takes no other.
    """
    said: Mapping[str, Any] = json.loads(shown)
    foreign = sorted(
        name
        for name in said.get("external_libs", {})
        if not any(fnmatchcase(name, glob) for glob in excluded)
    )
    least = _glibc(str(said.get("sym_tag", "")))
    claimed = [_glibc(platform) for platform in sorted(one.platforms)]
    plain = any(platform.startswith("linux_") for platform in one.platforms)
    seen = f"{', '.join(sorted(one.platforms))}; its symbols are of {said.get('sym_tag', 'an unknown glibc')}"
    if foreign:
        return Finding(
            check="wheel libraries",
            seen=f"links {', '.join(foreign)}, which it does not bring",
            remedy="let auditwheel copy them, or name what is there at run time in package.repair_exclude",
        )
    if plain and wants_manylinux:
        return Finding(
            check="wheel libraries",
            seen=f"{seen}; the index takes manylinux alone",
            remedy="build with package.repair: true, on an old enough base such as a manylinux image",
        )
    too_old = [one for one in claimed if one is not None and least is not None and one < least]
    return judged(
        "wheel libraries",
        seen,
        holds=not too_old,
        remedy="repair it again: it needs a newer glibc than its tag says",
    )


def _python(one: Artifact, binaries: Sequence[str]) -> Finding:
    made_for = {f"cp{found[1]}" for name in binaries if (found := _FOR_PYTHON.search(name))}
    stated = {tag.interpreter for tag in one.tags}
    fits = not made_for or made_for == stated
    return judged(
        "wheel Python",
        f"tagged {', '.join(sorted(stated))}, binaries for {', '.join(sorted(made_for)) or 'none or any'}",
        holds=fits,
        remedy="build it with the Python it is tagged for, and one wheel a Python",
    )


def _glibc(platform: str) -> tuple[int, int] | None:
    if found := _MANYLINUX.match(platform):
        return int(found[1]), int(found[2])
    return _LEGACY.get(platform.partition("_")[0])


def _tags(tags: Iterable[Tag]) -> str:
    return ", ".join(sorted(map(str, tags))) or "nothing"
