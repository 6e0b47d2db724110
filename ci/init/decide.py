"""What becomes of a file: made, left, renewed, merged, in conflict; people's changes are never lost.

Lines are merged by Git. Dependabot renews a pin (`uses: NAME@REF # version`) in a checkout and an upgrade
renews it in our text: to a merge of lines both have changed the same line. So the pin is decided by itself,
and the lines around it are merged as if it had not changed.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from packaging.version import InvalidVersion, Version

from ci.core.errors import CommandError
from ci.core.git import finish_git
from ci.init.files import Seen

TIMEOUT_S = 60
# git-merge-file(1): the code is how many conflicts there are, at most 127; above it something went wrong.
_MOST_CONFLICTS = 127
# `uses: NAME@REF # v1.2.3`: what it names, and all behind it.
_USES = re.compile(
    r"^(?P<begin>[ \t]*(?:-[ \t]+)?uses:[ \t]*['\"]?)(?P<name>[^\s@'\"#]+)@(?P<pin>[^\n]*)$", re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What a merge came to.

    Attributes:
        text: with conflict marks, where there are conflicts.
        conflicts: how many.
    """

    text: str
    conflicts: int


def merge(base: str, theirs: str, ours: str) -> Merged:
    """Merge by lines what changed from `base` to `ours` into `theirs`.

    Args:
        base: what both come from.
        theirs: what is in the checkout.
        ours: what would be written.

    Raises:
        CommandError: Git is not installed, or did not do it.
    """
    with tempfile.TemporaryDirectory(prefix="spyre-ci-init-") as name:
        folder = Path(name)
        for file, text in (("theirs", theirs), ("base", base), ("ours", ours)):
            (folder / file).write_bytes(text.encode())
        labels = [word for one in ("this checkout", "written last", "spyre-ci") for word in ("-L", one)]
        words = ("merge-file", "-p", "--diff3", *labels, "theirs", "base", "ours")
        ended = finish_git(folder, *words, timeout_s=TIMEOUT_S)
    if not 0 <= ended.code <= _MOST_CONFLICTS:
        said = ended.stderr.decode(errors="replace").strip()
        raise CommandError(
            f"git merge-file ended with code {ended.code}: {said}", remedy="check that git works"
        )
    return Merged(text=ended.stdout.decode(), conflicts=ended.code)


def settle(base: str, theirs: str, ours: str) -> tuple[str, str, str]:
    """The three texts of a merge with each pin the same in all, where it can be decided.

    What only one side changed is that side's. Of two changed pins that of a newer version holds; where that
    cannot be told, theirs.

    Args:
        base: what we last wrote.
        theirs: what is there now.
        ours: what we would write now.
    """
    found = [pins(text) for text in (base, theirs, ours)]
    chosen = {}
    for name in found[0].keys() & found[1].keys() & found[2].keys():
        before, now, new = (one[name] for one in found)
        if len(before) == len(now) == len(new) == 1:
            chosen[name] = _choose(*before, *now, *new)
    settled = [_with(text, chosen) for text in (base, theirs, ours)]
    return settled[0], settled[1], settled[2]


def pins(text: str) -> dict[str, set[str]]:
    """What each action or workflow of a text is pinned to, with the comment behind it."""
    found: dict[str, set[str]] = {}
    for use in _USES.finditer(text):
        found.setdefault(use["name"], set()).add(use["pin"])
    return found


def _choose(before: str, now: str, new: str) -> str:
    if now == before:
        return new
    if new == before:
        return now
    ours, theirs = _version(new), _version(now)
    return new if ours is not None and theirs is not None and ours > theirs else now


def _version(pin: str) -> Version | None:
    said = re.search(r"#\s*v?(\S+)", pin)
    try:
        return Version(said[1]) if said else None
    except InvalidVersion:
        return None


def _with(text: str, chosen: Mapping[str, str]) -> str:
    return _USES.sub(lambda use: f"{use['begin']}{use['name']}@{chosen.get(use['name'], use['pin'])}", text)


Merge = Callable[[str, str, str], Merged]


class Status(StrEnum):
    """What becomes of a file; the names are those of `--json`."""

    CREATED = "created"
    UNCHANGED = "unchanged"
    UPDATED = "updated"
    MERGED = "merged"
    KEPT = "kept"
    CONFLICT = "conflict"


WRITES = {Status.CREATED, Status.UPDATED, Status.MERGED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of a file.

    Attributes:
        path: in the checkout.
        status: what becomes of it.
        seen: what is there.
        text: what is to be there; of a conflict the merge with its marks; None where nothing is written.
        why: in a few words; empty where the status says all.
        base: what is noted as written last; None: nothing is.
    """

    path: str
    status: Status
    seen: Seen
    text: str | None = None
    why: str = ""
    base: str | None = None

    @property
    def writes(self) -> bool:
        """Whether the file is to be written."""
        return self.status in WRITES


def decide(
    path: str,
    seen: Seen,
    ours: str,
    base: str | None,
    merge: Merge,
    *,
    keep: bool = False,
    again: bool = False,
    wrong: Callable[[str], str] = lambda _: "",
) -> Change:
    """Decide what becomes of a file.

    Args:
        path: of it.
        seen: what is there.
        ours: what would be written today.
        base: what was written last; None where it never was.
        merge: of three texts: base, theirs, ours.
        keep: somebody says that the file stays as it is, and that this is how ours is taken into it.
        again: somebody says that a file that was removed is made again.
        wrong: says of a merged text what makes it none; empty where it is one.
    """
    if keep and (seen.odd or seen.text is not None):
        return Change(path=path, status=Status.KEPT, seen=seen, why="as you said", base=ours)
    if seen.odd:
        return Change(path=path, status=Status.CONFLICT, seen=seen, why=seen.odd, base=base)
    if seen.text is None:
        return _made(path, seen, ours, base, keep=keep, again=again)
    if seen.text == ours:
        return Change(path=path, status=Status.UNCHANGED, seen=seen, base=ours)
    if base is None:
        why = "it was there before, and spyre-ci init did not write it"
        return Change(path=path, status=Status.KEPT, seen=seen, why=why)
    return _renewed(path, seen, ours, base, merge, wrong=wrong)


def _made(path: str, seen: Seen, ours: str, base: str | None, *, keep: bool, again: bool) -> Change:
    if keep and base is None and not again:  # as one that was removed
        why = f"as you said; --again {path} makes it"
        return Change(path=path, status=Status.KEPT, seen=seen, why=why, base=ours)
    if base is None or again:
        return Change(path=path, status=Status.CREATED, seen=seen, text=ours, base=ours)
    why = f"it was removed; --again {path} makes it again"
    return Change(path=path, status=Status.KEPT, seen=seen, why=why, base=base)


def _renewed(
    path: str, seen: Seen, ours: str, base: str, merge: Merge, *, wrong: Callable[[str], str]
) -> Change:
    theirs = seen.text or ""
    if theirs == base:
        return Change(path=path, status=Status.UPDATED, seen=seen, text=ours, base=ours)
    before, now, new = settle(base, theirs, ours)
    made = Merged(text=now, conflicts=0) if new == before else merge(before, now, new)
    if made.conflicts:
        why = "both you and this version changed the same lines"
        return Change(path=path, status=Status.CONFLICT, seen=seen, text=made.text, why=why, base=base)
    if made.text == theirs:
        return Change(path=path, status=Status.KEPT, seen=seen, why="with your changes", base=ours)
    if why := wrong(made.text):
        return Change(path=path, status=Status.CONFLICT, seen=seen, text=made.text, why=why, base=base)
    return Change(path=path, status=Status.MERGED, seen=seen, text=made.text, base=ours)
