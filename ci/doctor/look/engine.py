"""Facts of the container engine and the registry, asked in a process of their own."""

from __future__ import annotations

import shutil
from pathlib import Path

from ci.addresses import without_secrets
from ci.doctor.finding import Finding
from ci.doctor.judge.engine import EngineFacts, judge_engine, judge_registry
from ci.doctor.world import Told, World, ask_module

LIMIT_S = 20.0
SOCKET = Path("/var/run/docker.sock")


def look_engine(world: World, socket: Path = SOCKET) -> list[Finding]:
    """The engine, its storage, and the registry the settings name."""
    named = world.environ.get("DOCKER_HOST", "")
    repository = world.settings.model.image.repository or ""
    there = socket.exists()
    asks = bool(named) or there or bool(repository)
    told = ask_module(world, "ci.doctor.asked_engine", repository, limit_s=LIMIT_S) if asks else Told()
    facts = EngineFacts(
        address=without_secrets(named or f"unix://{socket}"),
        named=bool(named),
        socket=there,
        told=told.row,
        why=told.why,
        repository=repository,
        platform=world.settings.model.image.platform,
        free=_free(str(told.row.get("root", "")), local=named.startswith("unix:") or not named),
    )
    return [*judge_engine(facts), *judge_registry(facts)]


def _free(root: str, *, local: bool) -> int | None:
    """Bytes left in a folder of this machine; None for any other."""
    if not root or not local:
        return None
    try:
        return shutil.disk_usage(root).free
    except OSError:
        return None
