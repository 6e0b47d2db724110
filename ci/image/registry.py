"""What a registry holds: digests, asked through the engine, which has its credentials, and tags.

What engines cannot ask is asked here, by OCI's distribution specification: a HEAD of the manifest (podman
does not know docker's question) and the list of tags, with a user and a word, or with a token from where the
registry's `WWW-Authenticate` says.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import partial
from urllib.parse import urljoin, urlsplit

import docker
import requests
from docker import auth
from docker.credentials.errors import StoreError
from docker.errors import APIError, DockerException, NotFound

from ci.core.addresses import is_loopback
from ci.core.errors import EXIT_INCOMPLETE, CommandError, MissingInputError, SpyreCiError
from ci.image.engine import engine_error, is_podman

# Engines hand on what registries say, who say it in many ways.
_CREDENTIALS = ("unauthorized", "denied", "authentication", "no basic auth")
# As OCI's distribution specification has them.
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
# Signatures, SBOMs and other things beside an image are tagged by its digest (cosign, OCI's fall-back).
_BESIDE = re.compile(r"sha256-[0-9a-f]{64}(\.[a-z]+)?")
_MOST_PAGES = 100
TIMEOUT_S = 30
DOCKER_HUB = "docker.io"
_HUB_ADDRESS = "registry-1.docker.io"
_KINDS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
WHOLE_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_QUOTED = re.compile(r'(\w+)="([^"]*)"')


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


class RegistryAwayError(CommandError):
    """A registry that is not reached, or does not answer as one: another time may do."""

    exit_code = EXIT_INCOMPLETE


class RefusedError(Exception):
    """The registry wants other credentials."""


def split_image(image: str) -> tuple[str, str, str]:
    """Registry, repository and tag of an image's name.

    Args:
        image: as engines take it: without a registry it is of Docker's, without a tag its latest.
    """
    first, slash, rest = image.partition("/")
    if not slash or not (set(".:") & set(first) or first == "localhost"):
        first, rest = DOCKER_HUB, image if slash else f"library/{image}"
    folder, slash, last = rest.rpartition("/")
    name, _, tag = last.partition(":")
    return first, f"{folder}{slash}{name}", tag or "latest"


def digest_in_registry(image: str) -> str | None:
    """The digest a registry has an image by, `sha256:…`; None where it has none of that name.

    Args:
        image: registry, repository and tag.

    Raises:
        RefusedError: it wants other credentials.
        RegistryAwayError: it cannot be reached, or answers otherwise.
    """
    registry, repository, tag = split_image(image)
    url = f"{address_of(registry)}/v2/{repository}/manifests/{tag}"
    answer = asked(partial(_head, url), image)
    if answer.status_code == requests.codes.not_found:
        return None
    digest = answer.headers.get("Docker-Content-Digest", "")
    if answer.status_code != requests.codes.ok or not WHOLE_DIGEST.fullmatch(digest):
        raise RegistryAwayError(
            f"the registry {registry} answers {answer.status_code} and no digest for {image}", where=registry
        )
    return digest


def address_of(registry: str) -> str:
    """Where a registry is asked; over plain HTTP on this machine alone."""
    address = _HUB_ADDRESS if registry == DOCKER_HUB else registry
    scheme = "http" if is_loopback(urlsplit(f"//{address}").hostname or "") else "https"
    return f"{scheme}://{address}"


def asked(send: Callable[[str], requests.Response], image: str) -> requests.Response:
    """What a registry answers, with credentials where it wants them.

    Args:
        send: asks, with an `Authorization`, empty for none.
        image: it is asked about.

    Raises:
        RefusedError: it wants other credentials.
        RegistryAwayError: it cannot be reached.
    """
    registry, repository, _ = split_image(image)
    try:
        answer = send("")
        if answer.status_code == requests.codes.unauthorized:
            known = _credentials(registry)
            answer = send(_authorization(answer.headers.get("WWW-Authenticate", ""), known, repository))
    except (requests.RequestException, ValueError, DockerException, StoreError) as error:
        raise RegistryAwayError(
            f"the registry {registry} cannot be asked for {image}: {type(error).__name__}",
            where=registry,
            remedy="check that it can be reached from here",
        ) from error
    if answer.status_code in {requests.codes.unauthorized, requests.codes.forbidden}:
        raise RefusedError
    return answer


def _head(url: str, authorization: str) -> requests.Response:
    headers = {"Accept": ", ".join(_KINDS)} | ({"Authorization": authorization} if authorization else {})
    return requests.head(url, headers=headers, timeout=TIMEOUT_S, allow_redirects=False)


def _credentials(registry: str) -> tuple[str, str] | None:
    """User and word, as `docker login` left them."""
    found = auth.load_config().resolve_authconfig(registry) or {}
    user, word = found.get("username"), found.get("password")
    return (user, word) if user and word else None


def _authorization(asked: str, known: tuple[str, str] | None, repository: str) -> str:
    kind, _, rest = asked.partition(" ")
    if kind.lower() == "basic" and known:
        return f"Basic {base64.b64encode(':'.join(known).encode()).decode()}"
    said = dict(_QUOTED.findall(rest))
    if kind.lower() != "bearer" or not said.get("realm"):
        return ""
    realm = urlsplit(said["realm"])
    # Credentials go over no line that others read.
    if realm.scheme != "https" and not is_loopback(realm.hostname or ""):
        return ""
    query = {"service": said.get("service", ""), "scope": f"repository:{repository}:pull"}
    answer = requests.get(said["realm"], params=query, auth=known, timeout=TIMEOUT_S, allow_redirects=False)
    if answer.status_code != requests.codes.ok:
        return ""
    told = answer.json()
    return f"Bearer {told.get('token') or told.get('access_token') or ''}"
