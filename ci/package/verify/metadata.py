"""What an artifact says of itself, against what it is called and what was to be built; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from email.message import Message

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from ci.core.findings import Finding, judged
from ci.package.artifacts import Artifact, Contents

# Metadata 2.4 names licence files relative to this folder of a wheel, and to the top of an sdist (PEP 639).
_LICENSES = "licenses"
_MEBI = 2**20


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
