"""Check what an artifact says of itself: against its name, what was to be built, and what its tags claim."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from email.message import Message
from fnmatch import fnmatchcase
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag, parse_tag
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from ci.core.findings import Finding, judged
from ci.package.artifacts import Artifact, Contents

# Metadata 2.4 names licence files relative to this folder of a wheel, and to the top of an sdist (PEP 639).
_LICENSES = "licenses"
_MEBI = 2**20
_BINARY = re.compile(r"\.(so(\.[0-9.]+)?|pyd|dylib|dll)$")
# As CPython names extensions: ops.cpython-312-x86_64-linux-gnu.so
_FOR_PYTHON = re.compile(r"\.cpython-(\d+)[^/]*\.so$")
_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_(\w+)")
_LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


def check_metadata(one: Artifact, contents: Contents, *, project: str, version: Version) -> list[Finding]:
    """Name, version, licence, requirements and description of an artifact.

    Args:
        one: it.
        contents: what is in it.
        project: the name that was to be built, canonical.
        version: that was to be built.
    """
    return [
        _identity(one, contents.metadata, project, version),
        _license(one, contents),
        _requirements(one, contents.metadata),
        _described(one, contents.metadata),
    ]


def check_size(one: Artifact, max_mib: float) -> Finding:
    """Whether an index takes a file of its size.

    Args:
        one: the file.
        max_mib: MiB it may have.
    """
    mib = one.size / _MEBI
    return judged(
        f"{one.kind} size",
        f"{mib:.2f} MiB, {max_mib:g} at most",
        holds=mib <= max_mib,
        remedy="leave out what is not needed at run time, or ask the index for more (package.indexes)",
    )


def check_together(artifacts: Sequence[Artifact]) -> Finding:
    """Whether there are an sdist and a wheel of it."""
    kinds = {one.kind for one in artifacts}
    missing = sorted({"sdist", "wheel"} - kinds)
    return judged(
        "artifacts",
        ", ".join(one.filename for one in artifacts),
        holds=not missing,
        remedy=f"there is no {' and no '.join(missing)}: run spyre-ci package build",
    )


def _identity(one: Artifact, metadata: Message, project: str, version: Version) -> Finding:
    name, said = str(metadata.get("Name", "")), str(metadata.get("Version", ""))
    try:
        same = Version(said) == one.version == version
    except InvalidVersion:
        same = False
    return judged(
        f"{one.kind} name and version",
        f"{one.filename} says {name} {said}",
        holds=same and canonicalize_name(name) == one.name == project,
        remedy=f"it was to be {project} {version}: build it again from this commit",
    )


def _license(one: Artifact, contents: Contents) -> Finding:
    metadata = contents.metadata
    stated = str(metadata.get("License-Expression") or metadata.get("License") or "")
    stated = stated or next(
        (row for row in map(str, metadata.get_all("Classifier", [])) if row.startswith("License ::")), ""
    )
    files = [str(name) for name in metadata.get_all("License-File", [])]
    missing = [name for name in files if not _has_license(one, contents, name)]
    seen = f"{stated.splitlines()[0][:80] if stated else 'no licence stated'}; " + (
        f"not in it: {', '.join(missing)}" if missing else ", ".join(files) or "no licence file"
    )
    return judged(
        f"{one.kind} licence",
        seen,
        holds=bool(stated and files and not missing),
        remedy='state it in [project]: license = "Apache-2.0", license-files = ["LICENSE"]',
    )


def _has_license(one: Artifact, contents: Contents, name: str) -> bool:
    """Whether a licence file that metadata names is there; older back ends put it beside METADATA."""
    names = [member.name.partition("/") for member in contents.members]
    wanted = {name} if one.kind == "sdist" else {f"{_LICENSES}/{name}", name}
    return any(rest in wanted for top, _, rest in names if one.kind == "sdist" or top.endswith(".dist-info"))


def _requirements(one: Artifact, metadata: Message) -> Finding:
    wrong = list(_wrong_requirements([str(line) for line in metadata.get_all("Requires-Dist", [])]))
    return judged(
        f"{one.kind} requirements",
        "; ".join(wrong) or f"{len(metadata.get_all('Requires-Dist', []))} requirements",
        holds=not wrong,
        remedy="name a version of an index: indexes refuse what is fetched from elsewhere (PEP 440)",
    )


def _wrong_requirements(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            yield f"{line!r} is no requirement"
            continue
        if requirement.url:
            yield f"{requirement.name} is fetched from an address"


def _described(one: Artifact, metadata: Message) -> Finding:
    text = str(metadata.get("Description") or metadata.get_payload() or "").strip()
    kind = str(metadata.get("Description-Content-Type", ""))
    return judged(
        f"{one.kind} description",
        f"{len(text):,} characters, {kind or 'no content type'}",
        holds=bool(text and kind),
        remedy='name the README in [project]: readme = "README.md"',
    )


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
