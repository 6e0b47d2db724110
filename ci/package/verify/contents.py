"""What is in an artifact and must not be, and what is to be there and is not; pure but for reading it."""

from __future__ import annotations

import base64
import csv
import fnmatch
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from ci.core.archives import Member
from ci.core.findings import Finding, judged
from ci.core.text import escaped, listed
from ci.package.artifacts import Artifact, Contents, digests_of, read_member

# Left behind by tools and editors, or secret; by name, wherever it is.
FORBIDDEN = (
    "*.pyc", "*.pyo", "*.orig", "*.rej", "*.swp", "*~", ".DS_Store", "Thumbs.db", ".env", ".netrc", ".pypirc",
    "id_rsa", "id_ed25519", "*.pem", "*.key", "*.p12", "*.kdbx", "core", "core.[0-9]*", ".coverage", "*.log",
)  # fmt: skip
FORBIDDEN_FOLDERS = {
    ".git", ".hg", ".svn", ".nox", ".tox", ".venv", "__pycache__", ".pytest_cache", ".mypy_cache",
    ".ruff_cache", ".idea", ".vscode", ".spyre-ci", "node_modules",
}  # fmt: skip
_MODULE = re.compile(r"([^./]+)(\.[^/]+)?\.(py|so|pyd)")
_LIBRARY = re.compile(r"[^/]+\.so(\.\d+)*")
_PLACES = ("site-packages/", "dist-packages/")
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
        found += [_toplevel(one, contents.members, toplevel), _record(one, contents.members)]
    return found


def installed_at_top(members: Sequence[Member]) -> set[str]:
    """What can be imported of what a wheel installs at the top level."""
    return {name for path in _installed(members) if (name := _imported(path))}


def _installed(members: Sequence[Member]) -> set[str]:
    """Where a wheel's files are put, below site-packages; see the binary distribution format, "Spread"."""
    names = [member.name for member in members]
    stem = next((name for name in names if re.fullmatch(r"[^/]*\.dist-info/WHEEL", name)), "")
    stem = stem.removesuffix(".dist-info/WHEEL")
    found = set()
    for name in names:
        folder, _, rest = name.partition("/")
        scheme, _, inner = rest.partition("/")
        if folder == f"{stem}.data":
            if scheme in {"purelib", "platlib"}:
                found.add(inner)
            # Below the prefix, where the packages are as well.
            found.update(inner.partition(place)[2] for place in _PLACES if place in inner)
        elif folder != f"{stem}.dist-info":
            found.add(name)
    return found


def _imported(path: str) -> str:
    """The name that a file at its place is imported by, or a part of; empty: none."""
    first, inner, _ = path.partition("/")
    module = _MODULE.fullmatch(first)
    name = first if inner else module[1] if module else ""
    return name if name.isidentifier() else ""


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
    exact: set[str] = set()
    for member in members:
        name, parts = member.name, PurePosixPath(member.name).parts
        is_there = name in exact
        exact.add(name)
        if not parts or escaped(name) != name:
            yield f"{escaped(name) or 'nothing'} is no name for a file"
        elif is_there:
            yield f"{name} is there twice"
        elif name.startswith("/") or ".." in parts or "\\" in name:
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


def _toplevel(one: Artifact, members: Sequence[Member], allowed: Sequence[str]) -> Finding:
    installed = _installed(members)
    brought = _libraries(one, installed)
    found = {_imported(path) or path.partition("/")[0] for path in installed if path not in brought}
    stray = sorted(found - set(allowed))
    seen = f"also installs {_some(stray)}" if stray else ", ".join(sorted(found)) or "installs nothing"
    return judged(
        "wheel top level",
        seen,
        holds=bool(found) and not stray,
        remedy=f"package {', '.join(allowed)} alone ([tool.setuptools.packages.find]), or name what belongs "
        "there in package.toplevel",
    )


def _libraries(one: Artifact, installed: set[str]) -> set[str]:
    """The shared libraries that auditwheel put into a wheel; a folder with anything else is none of its."""
    folder = f"{one.filename.partition('-')[0]}.libs/"
    found = {path for path in installed if path.startswith(folder)}
    return found if all(_LIBRARY.fullmatch(path.removeprefix(folder)) for path in found) else set()


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
    # A package may bring another one's below its own folder.
    wanted = re.compile(r"[^/]*\.dist-info/RECORD")
    listing = next((member.name for member in members if wanted.fullmatch(member.name)), None)
    if listing is None:
        yield "there is none"
        return
    lines = read_member(one, listing).decode(errors="replace").splitlines()
    try:
        told = {row[0]: row[1] for row in csv.reader(lines) if len(row) > 1}
    except csv.Error as error:
        yield f"it cannot be read: {error}"
        return
    unsigned = {listing, f"{listing}.jws", f"{listing}.p7s"}
    digests = digests_of(one)
    yield from (f"{name} is not in the wheel" for name in told if name not in digests)
    for name, digest in digests.items():
        if name in unsigned:
            continue
        if name not in told:
            yield f"{name} is not in it"
        elif told[name] != _digest(digest):
            yield f"{name} has another hash"


def _digest(digest: str) -> str:
    """A SHA-256 as RECORD writes it."""
    return "sha256=" + base64.urlsafe_b64encode(bytes.fromhex(digest)).rstrip(b"=").decode()


def _some(names: Sequence[str]) -> str:
    return listed([escaped(name) for name in names], _SHOWN)
