"""Check the container engine, its storage, and the registry that images are pushed to.

They are asked in a process of their own (`main`): both may hang, or start helpers.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.core import engine_address, operating_system
from ci.core.addresses import without_secrets
from ci.core.errors import SpyreCiError
from ci.doctor.finding import Finding, Level, fault, ok, warning
from ci.doctor.world import Told, World, ask_module

ENGINE, REGISTRY = "engine", "registry"
GIB = 1 << 30
# The runtime image, its builder and one more of each beside it.
STORAGE_BYTES = 20 * GIB
_MACHINES = {"x86_64": "amd64"}
LIMIT_S = 20.0
_UNIX = "unix://"
TIMEOUT_S = 10
# Nobody pushes one of this name; whether the registry answers is what is asked.
TAG = "spyre-ci-doctor"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What the engine said.

    Attributes:
        address: where it is asked.
        named: whether DOCKER_HOST names it.
        socket: whether the usual socket is there.
        told: what the process printed; empty where it did not end as it should.
        why: that.
        repository: that images are pushed to; empty: none.
        platform: that images are built for.
        free: bytes left where it keeps images; None: unknown, as for one of another machine.
    """

    address: str
    named: bool
    socket: bool
    told: Mapping[str, Any]
    why: str = ""
    repository: str = ""
    platform: str = "linux/amd64"
    free: int | None = None


def judge_engine(facts: EngineFacts) -> list[Finding]:
    """Whether there is an engine, and whether that matters here."""
    if not facts.named and not facts.socket and not facts.repository:
        return [ok(ENGINE, "not used: none is there; images and `job submit --local` would want one")]
    # Without one a run goes on; who named one, or a repository to push to, asks for it.
    level = Level.FAULT if facts.named or facts.repository else Level.WARNING
    if lacks := facts.told.get("lacks"):
        return [_at(level, f"cannot be asked: the package {lacks} is not installed", "pip install docker")]
    if error := facts.told.get("error"):
        remedy = str(facts.told.get("remedy") or "start dockerd or podman's socket")
        if facts.told.get("denied"):
            remedy = (
                'sudo usermod -aG docker "$USER", then log in anew; or set DOCKER_HOST to an engine of yours'
            )
        return [_at(level, str(error), remedy)]
    if not facts.told:
        return [
            _at(level, f"{facts.address} does not answer: {facts.why}", "start it anew, or set DOCKER_HOST")
        ]
    return [_there(facts), *_storage(facts)]


def judge_registry(facts: EngineFacts) -> list[Finding]:
    """Whether the registry that the settings name can be asked."""
    if not facts.repository:
        return [ok(REGISTRY, "not used: image.repository names none")]
    registry = facts.repository.partition("/")[0]
    said = facts.told.get("registry")
    if said is None:
        return [
            warning(REGISTRY, f"{registry} was not asked: there is no engine to ask it by", "see `engine`")
        ]
    if said.get("error"):
        remedy = str(said.get("remedy") or f"check the name {registry} (image.repository) and the network")
        return [fault(REGISTRY, f"{registry}: {said['error']}", remedy)]
    return [ok(REGISTRY, f"{registry} answers for {facts.repository}")]


def _there(facts: EngineFacts) -> Finding:
    told = facts.told
    kind = "podman" if told.get("podman") else "docker"
    system, _, machine = str(told.get("platform", "")).partition("/")
    own = f"{system}/{_MACHINES.get(machine, machine)}"
    said = f"{kind} {told.get('version')} at {facts.address}, {own}, storage {told.get('driver')}"
    if facts.repository and own != facts.platform:
        return warning(
            ENGINE,
            f"{said}; images are built for {facts.platform}",
            f"name an engine of {facts.platform} in DOCKER_HOST, or set image.platform to {own}",
        )
    return ok(ENGINE, said)


def _storage(facts: EngineFacts) -> list[Finding]:
    if facts.free is None or facts.free >= STORAGE_BYTES:
        return []
    left = f"has {facts.free / GIB:.1f} GiB left; images want {STORAGE_BYTES / GIB:.0f}"
    said = f"its storage {facts.told.get('root')} {left}"
    return [warning(ENGINE, said, "docker system prune")]


def _at(level: Level, said: str, remedy: str) -> Finding:
    return Finding(look=ENGINE, level=level, said=said, remedy=remedy)


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
    told = ask_module(world, "ci.doctor.engine", repository, limit_s=LIMIT_S) if asks else Told()
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


def main(arguments: Sequence[str]) -> None:
    """Print what was found as a JSON object.

    Args:
        arguments: the repository that is pushed to; empty where none is named.
    """
    (repository,) = arguments
    sys.stdout.write(json.dumps(asked(repository)) + "\n")


def asked(repository: str) -> dict[str, Any]:
    """What the engine says of itself, and what the registry answers."""
    try:
        from ci.core.container_engine import engine, is_podman  # noqa: PLC0415  # wants docker's SDK
        from ci.core.registry import find_digest  # noqa: PLC0415  # the same
    except ModuleNotFoundError as error:
        return {"lacks": error.name}
    try:
        with engine(os.environ, timeout_s=TIMEOUT_S) as client:
            info = client.info()
            found: dict[str, Any] = {
                "version": str(client.version().get("Version", "")),
                "podman": is_podman(client),
                "driver": str(info.get("Driver", "")),
                "root": str(info.get("DockerRootDir", "")),
                "platform": f"{info.get('OSType', '')}/{info.get('Architecture', '')}",
            }
            if repository:
                found["registry"] = _registry(lambda: find_digest(f"{repository}:{TAG}"))
            return found
    except SpyreCiError as error:
        return {
            "error": error.what,
            "remedy": error.remedy or "",
            "denied": "Permission denied" in str(error.__cause__),
        }


def _registry(ask: Any) -> dict[str, str]:
    try:
        ask()
    except SpyreCiError as error:
        return {"error": error.what, "remedy": error.remedy or ""}
    return {}
