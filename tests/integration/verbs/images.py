"""."""

from __future__ import annotations

from .world import World


def built(world: World) -> None:
    raise NotImplementedError


def pytorch_image(world: World) -> None:
    raise NotImplementedError


def script(world: World) -> None:
    raise NotImplementedError


def shell_ends(world: World) -> None:
    raise NotImplementedError


def stack(world: World) -> None:
    raise NotImplementedError
