"""What is in an artifact and must not be, and what is to be there and is not; pure but for reading it."""

from __future__ import annotations

import base64
import csv
import fnmatch
import hashlib
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from ci.findings import Finding, judged
from ci.package.artifacts import Artifact, Contents, Member, read_member

# Left behind by tools and editors, or secret; by name, wherever it is.
FORBIDDEN = (
    "*.pyc", "*.pyo", "*.orig", "*.rej", "*.swp", "*~", ".DS_Store", "Thumbs.db", ".env", ".netrc", ".pypirc",
    "id_rsa", "id_ed25519", "*.pem", "*.key", "*.p12", "*.kdbx", "core", "core.[0-9]*", ".coverage", "*.log",
)  # fmt: skip
FORBIDDEN_FOLDERS = {
    ".git", ".hg", ".svn", ".nox", ".tox", ".venv", "__pycache__", ".pytest_cache", ".mypy_cache",
    ".ruff_cache", ".idea", ".vscode", ".spyre-ci", "node_modules",
}  # fmt: skip
_METADATA = re.compile(r".*\.(dist-info|data)")
_SHOWN = 5


def check_contents(
    one: Artifact, contents: Contents, *, toplevel: Sequence[str], forbidden: Sequence[str]
) -> list[Finding]:
    """Every check of an artifact's members.

    Args:
        one: the artifact.
        contents: what is in it.
        toplevel: what a wheel may install at the top level.
        forbidden: globs of files that must not be in it, besides `FORBIDDEN`.

    Raises:
        BadFileError: it is damaged.
    """
    found = [_paths(one, contents.members), _forbidden(one, contents.members, forbidden)]
    if one.kind == "wheel":
        found += [_toplevel(contents.members, toplevel), _record(one, contents.members)]
    return found


def installed_at_top(members: Sequence[Member]) -> set[str]:
    """What a wheel installs at the top level, as it is imported."""
    names = {member.name.partition("/")[0] for member in members}
    return {
        re.sub(r"\.(py|so|pyd|.*\.so|.*\.pyd)$", "", name) for name in names if not _METADATA.fullmatch(name)
    }


def _paths(one: Artifact, members: Sequence[Member]) -> Finding:
    wrong = list(_wrong_paths(one, members))
    return judged(
        f"{one.kind} paths",
        _some(wrong) or f"{len(members):,} files",
        holds=not wrong,
        remedy="package plain files below one folder, each once",
    )


def _wrong_paths(one: Artifact, members: Sequence[Member]) -> Iterator[str]:
    top = one.filename.removesuffix(".tar.gz")
    seen: dict[str, str] = {}
    for member in members:
        name, parts = member.name, PurePosixPath(member.name).parts
        if name.startswith("/") or ".." in parts or "\\" in name:
            yield f"{name} leads out of it"
        elif one.kind == "sdist" and parts[0] != top:
            yield f"{name} is not below {top}/"
        elif member.special:
            yield f"{name} is no file"
        elif member.link and (one.kind == "wheel" or not _stays(member, top)):
            yield f"{name} is a link to {member.link}"
        elif member.mode & 0o6000:
            yield f"{name} would run as its owner"
        elif (other := seen.setdefault(name.casefold(), name)) != name:
            yield f"{name} and {other} are one file where case does not count"


def _stays(member: Member, top: str) -> bool:
    """Whether a link of an sdist leads to a file of it."""
    if member.link.startswith("/"):
        return False
    target = posixpath.normpath(posixpath.join(posixpath.dirname(member.name), member.link))
    return target.startswith(f"{top}/") or member.link.startswith(f"{top}/")


def _forbidden(one: Artifact, members: Sequence[Member], more: Sequence[str]) -> Finding:
    wrong = [member.name for member in members if _is_forbidden(PurePosixPath(member.name), more)]
    return judged(
        f"{one.kind} contents",
        f"must not be packaged: {_some(wrong)}" if wrong else "nothing that must not be packaged",
        holds=not wrong,
        remedy="leave them out in pyproject.toml or MANIFEST.in; change secrets among them at once",
    )


def _is_forbidden(path: PurePosixPath, more: Sequence[str]) -> bool:
    if FORBIDDEN_FOLDERS & set(path.parts[:-1]):
        return True
    inner = str(PurePosixPath(*path.parts[1:]))
    return any(fnmatch.fnmatchcase(path.name, glob) for glob in FORBIDDEN) or any(
        fnmatch.fnmatchcase(name, glob) for glob in more for name in (path.name, str(path), inner)
    )


def _toplevel(members: Sequence[Member], allowed: Sequence[str]) -> Finding:
    found = installed_at_top(members)
    stray = sorted(found - set(allowed))
    seen = f"also installs {_some(stray)}" if stray else ", ".join(sorted(found)) or "installs nothing"
    return judged(
        "wheel top level",
        seen,
        holds=bool(found) and not stray,
        remedy=f"package {', '.join(allowed)} alone ([tool.setuptools.packages.find]), or name what belongs "
        "there in package.toplevel",
    )


def _record(one: Artifact, members: Sequence[Member]) -> Finding:
    wrong = list(_wrong_records(one, members))
    return judged(
        "wheel RECORD",
        _some(wrong) or "every file with its hash",
        holds=not wrong,
        remedy="build the wheel again; a wheel is not changed by hand",
    )


def _wrong_records(one: Artifact, members: Sequence[Member]) -> Iterator[str]:
    """What RECORD says otherwise than the files are (binary distribution format)."""
    listing = next((member.name for member in members if member.name.endswith(".dist-info/RECORD")), None)
    if listing is None:
        yield "there is none"
        return
    lines = read_member(one, listing).decode(errors="replace").splitlines()
    told = {row[0]: row[1] for row in csv.reader(lines) if len(row) > 1}
    unsigned = {listing, f"{listing}.jws", f"{listing}.p7s"}
    names = {member.name for member in members}
    yield from (f"{name} is not in the wheel" for name in told if name not in names)
    for member in members:
        if member.name in unsigned:
            continue
        if member.name not in told:
            yield f"{member.name} is not in it"
        elif told[member.name] != _digest(read_member(one, member.name)):
            yield f"{member.name} has another hash"


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
