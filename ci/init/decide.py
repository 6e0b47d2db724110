"""What becomes of a file: made, left, renewed, merged, in conflict; people's changes are never lost. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from ci.init.merging import Merged
from ci.init.pins import settle
from ci.init.seen import Seen

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
