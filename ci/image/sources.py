"""The context of an image's build: the rendered file, components' sources and package files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from ci.core.errors import CommandError
from ci.core.repositories import put_files
from ci.image.checkout import put_checkout
from ci.image.model import PYTORCH
from ci.image.resolved import ResolvedComponent, ResolvedStack


def write_context(
    resolved: ResolvedStack,
    containerfile: str,
    *,
    packages: Path,
    context: Path,
    environ: Mapping[str, str],
    echo: Callable[[str], None],
) -> None:
    """Write what a stack is built of into a folder, below `sources/` and `packages/`.

    Args:
        resolved: the stack, named exactly.
        containerfile: as rendered.
        packages: folder that the paths of package files begin in.
        context: is made; must not be there.
        environ: git's.
        echo: takes lines for people.

    Raises:
        CommandError: a commit cannot be fetched, or something of this machine changed since it was named.
    """
    context.mkdir()
    (context / "Containerfile").write_text(containerfile, encoding="utf-8")
    pytorch = resolved.pytorch
    if pytorch.git is not None:
        echo(f"{PYTORCH}: {pytorch.git.url} at {pytorch.commit}")
        put_files(pytorch.git.url, pytorch.commit, context / "sources" / PYTORCH, environ=environ)
    for part in resolved.components:
        if part.component.git is not None:
            _put_source(part, context / "sources" / part.component.name, environ, echo)
        for file in part.files:
            data = (packages / file.path).read_bytes()
            if hashlib.sha256(data).hexdigest() != file.sha256:
                raise _changed(file.path, packages)
            copy = context / "packages" / part.component.name / Path(file.path).name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(data)
    _make_alike(context)


def _put_source(
    part: ResolvedComponent, target: Path, environ: Mapping[str, str], echo: Callable[[str], None]
) -> None:
    name, git = part.component.name, part.component.git
    assert git is not None  # noqa: S101  # the caller chose
    if part.folder is None:
        echo(f"{name}: {git.url} at {part.commit}")
        put_files(git.url, part.commit, target, environ=environ)
        return
    echo(f"{name}: {part.folder} as it stands")
    if put_checkout(part.folder, target, environ=environ) != part.tree:
        raise _changed(name, part.folder)


def _changed(what: str, where: Path) -> CommandError:
    return CommandError(
        f"{what} changed while the image was prepared",
        where=where,
        remedy="build again when nothing writes there",
    )


def _make_alike(folder: Path) -> None:
    """Let modes not depend on whose machine it is: they are part of the builder's cache, and of the image."""
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
