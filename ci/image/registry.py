"""What a registry holds, asked through the engine, which has its addresses, certificates and credentials."""

from __future__ import annotations

import docker
from docker.errors import APIError, NotFound

from ci.core.errors import CommandError, MissingInputError, SpyreCiError
from ci.image.engine import engine_error, is_podman
from ci.image.manifests import RefusedError, digest_in_registry

# Engines hand on what registries say, who say it in many ways.
_CREDENTIALS = ("unauthorized", "denied", "authentication", "no basic auth")


def digest_of(client: docker.DockerClient, image: str) -> str:
    """The digest of an image in its registry, `sha256:…`.

    Args:
        client: the engine.
        image: registry, repository and tag.

    Raises:
        MissingInputError: the registry has no such image, or shows it to nobody unknown.
        CommandError: the registry cannot be reached, or refuses the credentials.
    """
    found = find_digest(client, image)
    if found is None:
        raise MissingInputError(
            f"there is no image {image}",
            where=image.partition("/")[0],
            remedy="check its name and tag; a private one wants `docker login` first",
        )
    return found


def find_digest(client: docker.DockerClient, image: str) -> str | None:
    """The same; None where the registry has no such image.

    Raises:
        CommandError: the registry cannot be reached, or refuses the credentials.
    """
    try:
        said = client.api.inspect_distribution(image)  # type: ignore[no-untyped-call]  # its stubs lack it
    except NotFound:
        return _asked(image) if is_podman(client) else None
    except APIError as error:
        text = str(error.explanation or error)
        if any(word in text.lower() for word in ("manifest unknown", "name unknown", "not found")):
            return None
        raise registry_error(image, text) from error
    return str(said["Descriptor"]["digest"])


def _asked(image: str) -> str | None:
    try:
        return digest_in_registry(image)
    except RefusedError as error:
        raise registry_error(image, "unauthorized") from error


def registry_error(image: str, said: str) -> SpyreCiError:
    """What a registry says, by the engine, as the user's error it is.

    Args:
        image: that was asked for or pushed.
        said: by the engine.
    """
    registry = image.partition("/")[0]
    if any(word in said.lower() for word in _CREDENTIALS):
        return CommandError(
            f"the registry refuses the credentials for {image}",
            where=registry,
            remedy=f"log in: docker login {registry}",
        )
    return engine_error(said, where=registry)
