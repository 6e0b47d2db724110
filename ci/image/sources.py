"""The components' files, each in a folder of its own, as a build takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ci.core.errors import CommandError
from ci.image.checkout import put_checkout
from ci.image.repositories import put_files
from ci.image.resolved import ResolvedComponent


def put_sources(
    parts: Sequence[ResolvedComponent],
    folder: Path,
    *,
    environ: Mapping[str, str],
    echo: Callable[[str], None],
) -> dict[str, Path]:
    """Fetch the components that have sources; returns their folders by name.

    Args:
        parts: named exactly.
        folder: takes a folder a component.
        environ: git's.
        echo: takes lines for people.

    Raises:
        CommandError: a commit cannot be fetched, or a folder of this machine changed since it was named.
    """
    found = {}
    for part in parts:
        name, git = part.component.name, part.component.git
        if git is None:
            continue
        found[name] = folder / name
        if part.folder is None:
            echo(f"{name}: {git.url} at {part.commit}")
            put_files(git.url, part.commit, found[name], environ=environ)
            continue
        echo(f"{name}: {part.folder} as it stands")
        if put_checkout(part.folder, found[name], environ=environ) != part.tree:
            raise CommandError(
                f"the files of {name} changed while the image was prepared",
                where=part.folder,
                remedy="build again when nothing writes there",
            )
    return found
