"""A component that brings a Containerfile of its own: how the image is built that paths are taken from."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ci.core.errors import CommandError, MissingInputError
from ci.image.build import Order
from ci.image.checkout import leave_out_ignored
from ci.image.containerfile import own_image
from ci.image.pantry import proxies_of
from ci.image.params import params_of
from ci.image.resolved import ResolvedComponent, ResolvedStack


@contextmanager
def own_order(
    part: ResolvedComponent, resolved: ResolvedStack, source: Path, *, environ: Mapping[str, str]
) -> Iterator[Order]:
    """The order for that image, with its context at hand while the block runs.

    Args:
        part: has `containerfile`.
        resolved: its stack.
        source: the component's files.
        environ: the build's proxies are in it.

    Raises:
        MissingInputError: there is no such Containerfile.
    """
    git = part.component.git
    assert git is not None  # noqa: S101  # the caller chose
    folder = source / (git.subfolder or "")
    # Links are the component's word, and lead where it likes.
    for path in (folder, folder / str(git.containerfile)):
        if not path.resolve().is_relative_to(source.resolve()):
            raise CommandError(
                f"{path.relative_to(source)} of {part.component.name} is a link that leads out of it",
                where=part.folder or f"{git.url} at {part.commit}",
                remedy="name a folder and a Containerfile that are there themselves",
            )
    if not (folder / str(git.containerfile)).is_file():
        raise MissingInputError(
            f"{part.component.name} has no {git.containerfile}",
            where=part.folder or f"{git.url} at {part.commit}",
            remedy="mend `containerfile`, or `subfolder` before it",
        )
    with tempfile.TemporaryDirectory(prefix="spyre-ci-image-") as copy:
        # Its tests may want what its .dockerignore leaves out.
        context = Path(shutil.copytree(folder, Path(copy) / "context", symlinks=True))
        leave_out_ignored(context)
        yield Order(
            containerfile=str(git.containerfile),
            sources={},
            target=git.target,
            tag=own_image(part, resolved),
            folder=context,
            args={**proxies_of(environ), **params_of(resolved.stack, part.component)},
        )
