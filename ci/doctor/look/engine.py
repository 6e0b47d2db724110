"""Facts of the container engine and the registry, asked in a process of their own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from ci.core import engine_address, operating_system
from ci.core.addresses import without_secrets
from ci.doctor.finding import Finding
from ci.doctor.judge.engine import EngineFacts, judge_engine, judge_registry
from ci.doctor.world import Told, World, ask_module

LIMIT_S = 20.0
_UNIX = "unix://"


def look_engine(
    world: World, *, system: str | None = None, is_socket: Callable[[Path], bool] = Path.is_socket
) -> list[Finding]:
    """The engine, its storage, and the registry the settings name.

    Args:
        world: the outside world.
        system: as `sys.platform` has it; None: this one.
        is_socket: whether a path is one.
    """
    system = system or operating_system.name()
    named = world.environ.get("DOCKER_HOST", "")
    repository = world.settings.model.image.repository or ""
    address = engine_address.address(world.environ, system=system, is_socket=is_socket)
    there = is_socket(Path(address.removeprefix(_UNIX)))
    asks = bool(named) or there or bool(repository)
    told = ask_module(world, "ci.doctor.asked_engine", repository, limit_s=LIMIT_S) if asks else Told()
    facts = EngineFacts(
        address=without_secrets(address),
        named=bool(named),
        socket=there,
        told=told.row,
        why=told.why,
        repository=repository,
        platform=world.settings.model.image.platform,
        free=_free(str(told.row.get("root", "")), local=system == "linux" and address.startswith(_UNIX)),
    )
    return [*judge_engine(facts), *judge_registry(facts)]


def _free(root: str, *, local: bool) -> int | None:
    """Bytes left in a folder of this machine; None for any other, such as that of an engine on macOS."""
    if not root or not local:
        return None
    try:
        return shutil.disk_usage(root).free
    except OSError:
        return None
