"""Asking a registry itself what engines cannot ask: for a digest, as podman does not know docker's question.

By OCI's distribution specification: a HEAD of the manifest, with a user and a word, or with a token from
where the registry's `WWW-Authenticate` says. Its tags are asked for likewise, which no engine does.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from functools import partial
from urllib.parse import urlsplit

import requests
from docker import auth
from docker.credentials.errors import StoreError
from docker.errors import DockerException

from ci.core.addresses import is_loopback
from ci.core.errors import EXIT_INCOMPLETE, CommandError

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
