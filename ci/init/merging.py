"""Three versions of a text as one: Git's own merge of lines, in a folder of its own."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from ci.core.errors import CommandError
from ci.core.git import finish_git

TIMEOUT_S = 60
# git-merge-file(1): the code is how many conflicts there are, at most 127; above it something went wrong.
_MOST_CONFLICTS = 127


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
