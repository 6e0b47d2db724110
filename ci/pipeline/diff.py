"""Which files a change touches, asked of Git; where that cannot be told, everything counts as touched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ci.core.errors import CommandError
from ci.core.git import find_object, git
from ci.pipeline.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """What a change touches.

    Attributes:
        files: names from the repository's top, as `os.fsdecode` has them; None where it cannot be told.
        why: what was compared, or why it cannot be told, for people.
        base: the commit that it is compared with; empty where it cannot be told.
    """

    files: tuple[str, ...] | None
    why: str
    base: str = ""


def touched(folder: Path, event: Event, base: str | None = None) -> Touched:
    """The files that differ between what is checked out and what it is compared with.

    Args:
        folder: of the checkout.
        event: what began the pipeline.
        base: a commit or branch to compare with, which is requested by hand; None: as the event says.
    """
    try:
        head, *parents = git(folder, "rev-list", "--parents", "-n", "1", "HEAD", "--").split()
        old, said = _old(folder, event, head, parents, base)
        if not old:
            return Touched(files=None, why=said)
        names = git(
            folder, "diff-tree", "-r", "-z", "--name-only", "--no-renames", "--ignore-submodules=none",
            "--no-ext-diff", old, head, "--",
        )  # fmt: skip
    except (CommandError, ValueError) as error:
        return Touched(files=None, why=f"git failed: {str(error).splitlines()[0]}")
    files = tuple(filter(None, names.split("\0")))
    # A diff of nothing is more likely one of the wrong commits than a change of nothing.
    return Touched(files=files or None, why=said if files else f"{said}: no file differs", base=old)


def base_tip(folder: Path, event: Event) -> str:
    """The commit that a change is to go on top of; empty where nobody says it, or this clone lacks it."""
    return _commit(folder, event.base or f"refs/remotes/origin/{event.branch}")


def _old(folder: Path, event: Event, head: str, parents: list[str], base: str | None) -> tuple[str, str]:
    """The commit to compare with, and how it was found; an empty one, and why there is none."""
    if base is None and event.name == "pull_request":
        # GitHub merges the change into its base, Jenkins the base into the change: a known head tells.
        if len(parents) == 2 and parents[1] == event.head:  # noqa: PLR2004  # a merge has two
            return parents[0], "compared with the base that it is merged into"
        base = event.base or (event.branch and f"refs/remotes/origin/{event.branch}")
        if not base:
            return "", "the event names no base"
    if base is not None:
        return _fork_point(folder, base, head)
    if event.name not in {"merge_group", "push"}:
        return "", f"nothing to compare with ({event.name or 'no event'})"
    if event.base and not _commit(folder, event.base):
        return "", f"{event.base:.12} is not in this clone"
    return (
        event.base,
        f"compared with {event.base:.12}" if event.base else "the event names no commit before it",
    )


def _fork_point(folder: Path, base: str, head: str) -> tuple[str, str]:
    if not _commit(folder, base):
        return "", f"{base:.60} is not in this clone"
    try:
        found = git(folder, "merge-base", "--end-of-options", base, head).split()[0]
    except (CommandError, IndexError):
        return "", f"this clone does not have the commit where {head:.12} branched off {base:.60}"
    return found, f"compared with {found:.12}, where it branched off its base"


def _commit(folder: Path, name: str) -> str:
    """The commit of a name; empty where this clone lacks it."""
    return find_object(folder, f"{name}^{{commit}}")
