"""Where a container engine of this machine is asked, and what to do where none answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

USUAL = Path("/var/run/docker.sock")
# On macOS engines run in a virtual machine of the user's, and their sockets are the user's: as the manuals
# of Docker Desktop, podman machine (also beside TMPDIR), Colima and Rancher Desktop have them.
_OF_A_USER = (
    ".docker/run/docker.sock",
    ".local/share/containers/podman/machine/podman.sock",
    ".colima/default/docker.sock",
    ".rd/docker.sock",
)
_OF_PODMAN = "podman/podman-machine-default-api.sock"


def address(
    environ: Mapping[str, str], *, system: str, is_socket: Callable[[Path], bool] = Path.is_socket
) -> str:
    """The address of DOCKER_HOST, or of the first usual socket that is there.

    Args:
        environ: DOCKER_HOST, HOME and TMPDIR are read from it.
        system: as `sys.platform` has it.
        is_socket: whether a path is one.
    """
    if named := environ.get("DOCKER_HOST"):
        return named
    found = [USUAL]
    if system == "darwin":
        found += [Path(environ["HOME"], name) for name in _OF_A_USER if environ.get("HOME")]
        found += [Path(environ["TMPDIR"], _OF_PODMAN)] if environ.get("TMPDIR") else []
    return f"unix://{next((path for path in found if is_socket(path)), USUAL)}"


def remedy(*, system: str) -> str:
    """What to do where no engine answers."""
    if system == "darwin":
        return (
            "start Docker Desktop, or `podman machine start`; or set DOCKER_HOST to an engine's socket, "
            "which `docker context inspect` or `podman machine inspect` names"
        )
    return "start dockerd or podman's socket, or set DOCKER_HOST to where one is"
