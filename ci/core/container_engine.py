"""Talking to a container engine: dockerd, or podman's socket; its errors in the words of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import docker
import requests
from docker.credentials.errors import StoreError
from docker.errors import APIError, DockerException, ImageNotFound, NotFound, NullResource
from urllib3.exceptions import HTTPError

from ci.core import engine_address, operating_system
from ci.core.addresses import without_secrets
from ci.core.errors import CommandError, DiskFullError, MissingInputError, SpyreCiError, UsageError

TIMEOUT_S = 3600
NO_SPACE = "no space left on device"
# The kernel's words, apt's and dnf's.
_NO_SPACE = (NO_SPACE, "have enough free space in", "more space needed on the")


@contextmanager
def engine(environ: Mapping[str, str], *, timeout_s: int = TIMEOUT_S) -> Iterator[docker.DockerClient]:
    """The engine of DOCKER_HOST, or of a usual socket.

    Args:
        environ: what names it; see `ci.core.engine_address`.
        timeout_s: seconds in which it may say nothing, as while a container says nothing.

    Raises:
        CommandError: none is there; an error of the engine in the block.
        DiskFullError: its disk is full.
    """
    address = engine_address.address(environ, system=operating_system.name())
    socket = address.removeprefix("unix://")
    if socket != address and not Path(socket).exists():  # docker's client would say so less plainly
        raise _no_engine(address, "there is no such socket")
    try:
        client = docker.DockerClient(base_url=address, version="auto", timeout=timeout_s)
    except (DockerException, requests.RequestException) as error:
        raise _no_engine(address, _first_line(error)) from error
    try:
        yield client
    except (APIError, requests.RequestException) as error:
        raise engine_error(error) from error
    except HTTPError as error:
        raise CommandError(
            f"the container engine went away: {_first_line(error)}",
            where="DOCKER_HOST",
            remedy="check that it runs, then try again",
        ) from error
    except (DockerException, StoreError) as error:
        raise CommandError(
            f"the container engine cannot be used: {_first_line(error)}",
            where="DOCKER_HOST",
            remedy="fix the configuration of docker's client (~/.docker/config.json)",
        ) from error
    finally:
        client.close()


def _no_engine(address: str, why: str) -> CommandError:
    return CommandError(
        f"no container engine answers at {without_secrets(address)}: {why}",
        where="DOCKER_HOST",
        remedy=engine_address.remedy(system=operating_system.name()),
    )


def check_is_here(client: docker.DockerClient) -> None:
    """Refuse an engine of another machine.

    Folders are mounted from here.

    Raises:
        UsageError: it is not asked by a socket of this machine.
    """
    if not str(client.api.base_url).startswith("http+docker:"):
        raise UsageError(
            "this engine is on another machine, or listens as one would",
            where="DOCKER_HOST",
            remedy="run it where the engine runs, by its socket: unix:///…",
        )


def is_podman(client: docker.DockerClient) -> bool:
    """Whether it is podman that answers as docker's API."""
    parts = client.version().get("Components") or ()
    return any(str(part.get("Name", "")).startswith("Podman") for part in parts)


def has_image(client: docker.DockerClient, name: str) -> bool:
    """Whether the engine itself has an image.

    Args:
        client: the engine.
        name: with a tag, or an id.
    """
    try:
        client.images.get(name)
    except ImageNotFound:
        return False
    return True


def fetch(client: docker.DockerClient, name: str) -> None:
    """Have the engine have an image.

    Raises:
        UsageError: it is no name of an image.
        MissingInputError: neither it nor its registry has one of that name.
        CommandError: the registry cannot be reached, or refuses the credentials.
    """
    try:
        client.images.get(name)
    except NotFound:
        try:
            client.images.pull(name)
        except NotFound:
            raise MissingInputError(
                f"there is no image {name}, neither here nor in its registry",
                where="IMAGE",
                remedy="build it with `spyre-ci image build`, or check its name",
            ) from None
        except APIError as error:
            raise engine_error(error, where=name) from error
    except (NullResource, APIError) as error:
        if isinstance(error, APIError) and error.status_code != HTTPStatus.BAD_REQUEST:
            raise
        what, remedy = f"{name[:200]!r} is no name of an image", "write registry/repository:tag, or an id"
        raise UsageError(what, where="IMAGE", remedy=remedy) from None


def is_no_space(said: str) -> bool:
    """Whether a line tells of a full disk."""
    return any(words in said.lower() for words in _NO_SPACE)


def engine_error(error: Exception | str, *, where: str | None = None) -> SpyreCiError:
    """What the engine says, as the user's error it is."""
    said = str(getattr(error, "explanation", None) or error)
    if is_no_space(said):
        return DiskFullError(
            f"the container engine's disk is full: {_first_line(said)}",
            where=where,
            remedy="free space there (`docker system prune`), then build again",
        )
    remedy = "correct what it names, such as a command, a network or a device, and try again"
    return CommandError(f"the container engine reports: {_first_line(said)}", where=where, remedy=remedy)


def _first_line(error: object) -> str:
    return without_secrets(str(error).strip().partition("\n")[0])[:500]
