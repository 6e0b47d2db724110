"""The container engine, its storage, and the registry that images are pushed to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ci.doctor.finding import Finding, Level, fault, ok, warning

ENGINE, REGISTRY = "engine", "registry"
GIB = 1 << 30
# The runtime image, its builder and one more of each beside it.
STORAGE_BYTES = 20 * GIB
_MACHINES = {"x86_64": "amd64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What the engine said.

    Attributes:
        address: where it is asked.
        named: whether DOCKER_HOST names it.
        socket: whether the usual socket is there.
        told: what `ci.doctor.asked_engine` printed; empty where it did not end as it should.
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
        return [ok(ENGINE, "not used: none is there; images and `spyre-ci job local` would want one")]
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
