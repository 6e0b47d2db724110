"""A small stack of three components, built by a real engine over a real base, run and read."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import pytest

from ci.image.build import BuildStepError, Built, Order, build
from ci.image.containerfile import render
from ci.image.pantry import settings_of
from ci.image.registry import digest_of
from ci.image.repositories import put_files
from ci.image.resolve import Resolver
from ci.image.resolved import ResolvedStack, identity_of
from ci.image.stack import read_stack

from .conftest import World


def resolved(world: World) -> ResolvedStack:
    resolver = Resolver(
        folder=world.folder, digest_of=partial(digest_of, world.client), environ=dict(os.environ)
    )
    return resolver.resolve(read_stack(world.folder / "stack.yaml"), variant="pinned", platform="linux/amd64")


def built(world: World, stack: ResolvedStack, tmp_path: Path, lines: list[str]) -> tuple[str, Built]:
    containerfile = render(stack)
    tag = f"{world.registry}/{stack.stack.name}:{identity_of(stack, containerfile)}"
    sources = {}
    for one in stack.components:
        if one.component.git is not None:
            sources[one.component.name] = folder = tmp_path / "sources" / one.commit
            put_files(one.component.git.url, one.commit, folder, environ=dict(os.environ))
    order = Order(
        containerfile=containerfile,
        sources=sources,
        target="runtime",
        tag=tag,
        files={one.sha256: world.folder / one.path for part in stack.components for one in part.files},
        settings=settings_of(
            {"PIP_INDEX_URL": f"{world.index}/", "PIP_TRUSTED_HOST": "127.0.0.1"}, certificates=None
        ),
    )
    return tag, build(world.client, order, echo=lines.append, clock=time.monotonic)


@pytest.mark.nightly
def test_a_step_that_fails_is_told_with_its_lines_and_how_to_try_it(world: World, tmp_path: Path) -> None:
    world.commit({"flex.txt": "two\n"})
    text = (world.folder / "stack.yaml").read_text()
    (world.folder / "stack.yaml").write_text(
        text.replace('cp flex.txt "$DESTDIR', 'echo on the way; ls /nowhere; cp flex.txt "$DESTDIR')
    )
    with pytest.raises(BuildStepError) as caught:
        built(world, resolved(world), tmp_path, [])
    assert "a step ended with code 2: echo on the way; ls /nowhere" in caught.value.what
    assert "  | on the way" in caught.value.what
    assert "docker run --rm -it --network host" in (caught.value.remedy or "")
