"""Say where a project stands in its repository: the commit, what differs from it, the release before it.

What differs is compared byte for byte: Git's own word for it looks at times and filters.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from ci.core.addresses import without_credentials
from ci.core.errors import EXIT_INCOMPLETE, BadFileError, CommandError, SpyreCiError
from ci.core.git import SUBMODULE, Entry, Part, changes, differs, git, hidden_changes, parts
from ci.core.text import listed

# As many releases as git weighs against each other; its own 10 may leave out the nearest.
_CANDIDATES = 25
_SHOWN = 3
_DIGITS = 12
# What a repository may have done to a file's bytes on their way out (gitattributes(5)).
_ATTRIBUTES = ("text", "eol", "ident", "filter", "working-tree-encoding")
_UNSAID = {"unspecified", "unset"}
_CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a project stands in its repository.

    Attributes:
        commit: its SHA; empty where there is no repository that holds the project.
        url: of the repository it was cloned from, without credentials; empty where there is none.
        dirty: files, relative to the project, that differ from the commit.
        untracked: files, relative to the project, that are neither in the commit nor ignored.
        tag: the release tag nearest before the commit; empty where there is none.
        distance: commits since the tag, or since the first where there is none.
        shallow: whether the clone lacks history, so that tag and distance may be wrong.
        committed_at: seconds since the epoch.
    """

    commit: str
    url: str = ""
    dirty: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    tag: str = ""
    distance: int = 0
    shallow: bool = False
    committed_at: int = 0

    def as_json(self) -> dict[str, Any]:
        """As records name it."""
        return {"commit": self.commit, "url": self.url, "dirty": list(self.dirty)}


def read_source(folder: Path, tag_prefix: str = "v") -> Source:
    """Where a folder stands in its repository; a `Source` without a commit where no repository holds it.

    Raises:
        CommandError: git did not answer.
    """
    if not any((parent / ".git").exists() for parent in [folder.resolve(), *folder.resolve().parents]):
        return Source(commit="")
    held = list(parts(folder))
    if not held[0].entries and not (folder / ".git").exists():
        # The repository around it has nothing of it: its commit says nothing of these files.
        return Source(commit="")
    commit = git(folder, "rev-parse", "--verify", "HEAD^{commit}").strip()
    tag, distance = _nearest(folder, tag_prefix)
    dirty, untracked = _changes(folder, held)
    return Source(
        commit=commit,
        url=without_credentials(_origin(folder)),
        dirty=dirty,
        untracked=untracked,
        tag=tag,
        distance=distance,
        shallow=git(folder, "rev-parse", "--is-shallow-repository").strip() == "true",
        committed_at=int(git(folder, "log", "-1", "--format=%ct", "HEAD").strip()),
    )


def _changes(folder: Path, held: Sequence[Part]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    status = git(
        folder, "status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames",
        "--ignore-submodules=none", "--", ".",
    )  # fmt: skip
    changed, untracked = changes(status)
    # Git names them from the top of the repository.
    prefix = git(folder, "rev-parse", "--show-prefix").removesuffix("\n")
    hidden = [f"{part.below}{name}" for part in held for name in hidden_changes(part)]
    dirty = [*(name.removeprefix(prefix) for name in changed), *hidden]
    return _git_lines(dirty), _git_lines(name.removeprefix(prefix) for name in untracked)


def _git_lines(names: Iterable[str]) -> tuple[str, ...]:
    """Names that can be printed and written to records: bytes that are no UTF-8 stand as escapes."""
    return tuple(dict.fromkeys(os.fsencode(name).decode(errors="backslashreplace") for name in names))


def _nearest(folder: Path, prefix: str) -> tuple[str, int]:
    """The release tag nearest before HEAD, the highest of a commit's, and the commits since."""
    known = _releases(folder, prefix, "--merged=HEAD")
    if not known:
        return "", int(git(folder, "rev-list", "--count", "HEAD").strip())
    wanted = [f"--match={tag}" for tag in known.values()]
    said = git(folder, "describe", "--tags", "--long", f"--candidates={_CANDIDATES}", *wanted, "HEAD").strip()
    name = said.rsplit("-", 2)[0]
    tag = known.get(name, name)
    beside = set(_releases(folder, prefix, f"--points-at={tag}^{{commit}}").values()) | {tag}
    best = max(beside, key=lambda one: (Version(one.removeprefix(prefix)), one))
    # What describe counts goes by dates, and is too high where commits have the same.
    return best, int(git(folder, "rev-list", "--count", f"refs/tags/{best}..HEAD").strip())


def _releases(folder: Path, prefix: str, which: str) -> dict[str, str]:
    """Tags that are versions, by their names, and by those they were given first (describe says these)."""
    shown = "--format=%(refname:strip=2) %(tag)"
    found: dict[str, str] = {}
    for line in git(folder, "for-each-ref", which, shown, f"refs/tags/{prefix}*").splitlines():
        name, _, first = line.partition(" ")
        if is_release(name, prefix):
            found |= {first: name} if first and first not in found else {}
            found[name] = name
    return found


def is_release(tag: str, prefix: str) -> bool:
    """Whether a tag is the prefix and a version (PEP 440); pure."""
    text = tag.removeprefix(prefix)
    if not tag.startswith(prefix) or not text[:1].isdecimal():
        return False
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _origin(folder: Path) -> str:
    try:
        return git(folder, "remote", "get-url", "origin").strip()
    except CommandError:
        return ""


class MovedError(SpyreCiError):
    """A checkout that changed, or went to another commit, while it was looked at."""

    exit_code = EXIT_INCOMPLETE


def refuse_moved(folder: Path, before: str, now: str, *, again: str) -> None:
    """Raise where another commit is checked out than before.

    Args:
        folder: the checkout.
        before: the commit that was.
        now: the one that is.
        again: what is to be done anew.

    Raises:
        MovedError: it is another.
    """
    if now != before:
        raise MovedError(
            f"the checkout went from {before[:_DIGITS] or 'no commit'} to {now[:_DIGITS] or 'none'}",
            where=folder,
            remedy=f"{again} again, and leave it alone until the end",
        )


def refuse_other(folder: Path, source: Source, tree: Path, names: Iterable[str]) -> None:
    """Raise where a copy of a clean checkout is not what its commit holds.

    The checkout may have changed since Git was asked whether it is clean, and Git calls files clean that it
    converts on their way out of the repository.

    Args:
        folder: the checkout.
        source: where it stood when it was asked.
        tree: the copy.
        names: of the files in it.

    Raises:
        MovedError: the checkout changed meanwhile.
        BadFileError: Git converts a file; with what makes it.
    """
    now = git(folder, "rev-parse", "--verify", "HEAD^{commit}").strip()
    refuse_moved(folder, source.commit, now, again="begin")
    wanted = _committed(folder, source.commit)
    other = {
        name: why for name in differing(tree, wanted, names) if (why := _why(folder, tree, wanted, name))
    }
    converted = {name: why for name, why in other.items() if why != _CHANGED}
    if converted:
        told = listed([f"{_shown(name)} ({why})" for name, why in converted.items()], _SHOWN, "; ")
        raise BadFileError(
            f"Git checks out other bytes than the commit holds: {told}",
            where=folder,
            remedy="clone with core.autocrlf=false and without filters, or commit the bytes as they are to "
            "be and take the attribute away",
        )
    if other:
        told = listed([_shown(name) for name in other], _SHOWN)
        raise MovedError(
            f"the checkout changed while it was copied: {told} is not as {source.commit[:_DIGITS]} has it",
            where=folder,
            remedy="begin again, and leave it alone until the end",
        )


def differing(tree: Path, wanted: Mapping[str, Entry], names: Iterable[str]) -> list[str]:
    """Files, by name, that a tree has otherwise than a commit, or that only one of both has.

    Args:
        tree: of the files.
        wanted: what the commit has, by name.
        names: of the files there.
    """
    there = set(names)
    return sorted(
        name
        for name in there | wanted.keys()
        if name not in there or name not in wanted or differs(tree / name, wanted[name])
    )


def with_settings(folder: Path, source: Source, path: Path | None) -> Source:
    """The same, with the settings file among its changes where the commit does not hold it as it is.

    They say what is left out of a check. Git does not tell of a file that is ignored, and in a larger
    repository it is not asked outside the project. A file from elsewhere is whoever's who named it.

    Args:
        folder: the project's.
        source: where it stands.
        path: of the settings file; None: there is none.

    Raises:
        CommandError: git did not answer.
    """
    if path is None or not source.commit:
        return source
    top = Path(git(folder, "rev-parse", "--show-toplevel").removesuffix("\n")).resolve()
    real = path.resolve()
    # A link in the repository is the repository's, wherever it leads; and so is a file there.
    places = [path.parent.resolve() / path.name, Path(os.path.normpath(path.absolute())), real]
    inside = [place for place in places if place.is_relative_to(top)]
    if not inside or (real in inside and all(_holds(top, source.commit, place) for place in inside)):
        return source
    name = os.fsencode(os.path.relpath(inside[0], folder.resolve())).decode(errors="backslashreplace")
    return replace(source, dirty=tuple(dict.fromkeys([*source.dirty, name])))


def _holds(top: Path, commit: str, path: Path) -> bool:
    """Whether a commit has a file of its repository as it is now."""
    name = str(path.relative_to(top))
    held = _entries(git(top, "ls-tree", "-z", commit, "--", name))
    return [one.name for one in held] == [name] and not differs(path, held[0])


def _committed(folder: Path, commit: str, below: str = "") -> dict[str, Entry]:
    """Every file of a commit, as far as it is in a folder, and of the submodules it names."""
    found = {}
    for one in _entries(git(folder, "ls-tree", "-r", "-z", commit)):
        name = f"{below}{one.name}"
        if one.mode != SUBMODULE:
            found[name] = one
        elif os.path.lexists(folder / one.name / ".git"):
            found |= _committed(folder / one.name, one.object, f"{name}/")
    return found


def _entries(listed: str) -> list[Entry]:
    """What `git ls-tree -z` lists: mode, kind, hash, name (git-ls-tree(1)); pure."""
    found = []
    for line in filter(None, listed.split("\0")):
        told, _, name = line.partition("\t")
        mode, _kind, content = told.split(" ")
        found.append(Entry(name=name, mode=mode, object=content))
    return found


def _why(folder: Path, tree: Path, wanted: Mapping[str, Entry], name: str) -> str:
    """Why a file of the copy is not the commit's; empty where the commit itself says that it is to be so."""
    entry, path = wanted.get(name), tree / name
    if entry is None or not path.is_file() or path.is_symlink():
        return _CHANGED
    here, last = _place(folder, name)
    if not here.is_dir():
        return _CHANGED
    said = _attributes(here, last)
    plain = said.keys() <= {"text", "eol"}
    if plain and said.get("eol") == "crlf" and not differs(path, entry, lines=True) and not _own_rules(here):
        return ""
    if git(here, "hash-object", f"--path={last}", "--", str(path.resolve())).strip() != entry.object:
        return _CHANGED
    told = [f"{key}={value}" for key, value in said.items()]
    return f"by {', '.join(told)}" if told else "by core.autocrlf, or attributes outside the commit"


def _place(folder: Path, name: str) -> tuple[Path, str]:
    """The folder a file is in, whose repository may be a submodule's, and its name there."""
    path = folder / name
    return path.parent, path.name


def _attributes(folder: Path, name: str) -> dict[str, str]:
    """What the repository itself says is done to a file, by attribute."""
    # Those of this user are not the commit's.
    asked = git(
        folder, "-c", f"core.attributesFile={os.devnull}", "check-attr", "--cached", "-z", *_ATTRIBUTES, "--",
        name,
    ).split("\0")  # fmt: skip
    said = dict(zip(asked[1::3], asked[2::3], strict=False))
    return {key: value for key, value in said.items() if value not in _UNSAID}


def _own_rules(folder: Path) -> bool:
    """Whether the clone has attributes of its own, that no commit holds."""
    return (folder / git(folder, "rev-parse", "--git-path", "info/attributes").strip()).exists()


def _shown(name: str) -> str:
    return ascii(name)[1:-1]
