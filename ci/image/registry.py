"""What a registry holds: digests, asked through the engine, which has its credentials, and tags."""

from __future__ import annotations

import re
from functools import partial
from urllib.parse import urljoin, urlsplit

import docker
import requests
from docker.errors import APIError, NotFound

from ci.core.errors import CommandError, MissingInputError, SpyreCiError
from ci.image.engine import engine_error, is_podman
from ci.image.manifests import (
    TIMEOUT_S,
    RefusedError,
    RegistryAwayError,
    address_of,
    asked,
    digest_in_registry,
    split_image,
)

# Engines hand on what registries say, who say it in many ways.
_CREDENTIALS = ("unauthorized", "denied", "authentication", "no basic auth")
# As OCI's distribution specification has them.
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
# Signatures, SBOMs and other things beside an image are tagged by its digest (cosign, OCI's fall-back).
_BESIDE = re.compile(r"sha256-[0-9a-f]{64}(\.[a-z]+)?")
_MOST_PAGES = 100


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


def tags_of(repository: str) -> list[str]:
    """The tags of a repository, in order, without those of what stands beside images.

    Args:
        repository: registry and repository, as engines take them, without a tag.

    Raises:
        MissingInputError: the registry has no such repository, or shows it to nobody unknown.
        CommandError: the registry refuses the credentials.
        RegistryAwayError: it cannot be reached, or answers otherwise.
    """
    registry, path, _ = split_image(repository)
    found: set[str] = set()
    url = f"{address_of(registry)}/v2/{path}/tags/list?n=1000"
    for _ in range(_MOST_PAGES):
        tags, following = _page(url, repository)
        found.update(tags)
        if following is None:
            return sorted(one for one in found if _TAG.fullmatch(one) and not _BESIDE.fullmatch(one))
        url = following
    raise _answers(registry, f"more than {_MOST_PAGES} pages of tags for {repository}")


def _page(url: str, repository: str) -> tuple[list[str], str | None]:
    """Tags of one page, and where the next one is."""
    registry, _, _ = split_image(repository)
    try:
        answer = asked(partial(_get, url), repository)
    except RefusedError as error:
        raise registry_error(repository, "unauthorized") from error
    if answer.status_code == requests.codes.not_found:
        raise MissingInputError(
            f"there is no image {repository}",
            where=registry,
            remedy="check its name; a private one wants `docker login` first",
        )
    try:
        tags = answer.json()["tags"] or []
    except (ValueError, KeyError, TypeError):
        tags = None
    if answer.status_code != requests.codes.ok or not isinstance(tags, list):
        raise _answers(registry, f"{answer.status_code} and no tags for {repository}")
    following = answer.links.get("next", {}).get("url")
    if following is None:
        return list(map(str, tags)), None
    # Credentials are sent there too.
    there = urljoin(url, following)
    if urlsplit(there)[:2] != urlsplit(url)[:2]:
        raise _answers(registry, f"that the next tags of {repository} are elsewhere")
    return list(map(str, tags)), there


def _get(url: str, authorization: str) -> requests.Response:
    headers = {"Authorization": authorization} if authorization else {}
    return requests.get(url, headers=headers, timeout=TIMEOUT_S, allow_redirects=False)


def _answers(registry: str, what: str) -> RegistryAwayError:
    return RegistryAwayError(f"the registry {registry} answers {what}", where=registry)
