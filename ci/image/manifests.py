"""Asking a registry itself for a digest, where the engine cannot: podman does not know docker's question.

By OCI's distribution specification: a HEAD of the manifest, with a user and a word, or with a token from
where the registry's `WWW-Authenticate` says.
"""

from __future__ import annotations

import base64
import re
from urllib.parse import urlsplit

import requests
from docker import auth
from docker.credentials.errors import StoreError
from docker.errors import DockerException

from ci.addresses import is_loopback
from ci.errors import CommandError

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
        CommandError: it cannot be reached, or answers otherwise.
    """
    registry, repository, tag = split_image(image)
    address = _HUB_ADDRESS if registry == DOCKER_HUB else registry
    scheme = "http" if is_loopback(urlsplit(f"//{address}").hostname or "") else "https"
    url = f"{scheme}://{address}/v2/{repository}/manifests/{tag}"
    try:
        known = _credentials(registry)
        answer = _head(url)
        if answer.status_code == requests.codes.unauthorized:
            answer = _head(url, _authorization(answer.headers.get("WWW-Authenticate", ""), known, repository))
    except (requests.RequestException, ValueError, DockerException, StoreError) as error:
        raise CommandError(
            f"the registry {registry} cannot be asked for {image}: {type(error).__name__}",
            where=registry,
            remedy="check that it can be reached from here",
        ) from error
    if answer.status_code in {requests.codes.unauthorized, requests.codes.forbidden}:
        raise RefusedError
    if answer.status_code == requests.codes.not_found:
        return None
    digest = answer.headers.get("Docker-Content-Digest", "")
    if answer.status_code != requests.codes.ok or not WHOLE_DIGEST.fullmatch(digest):
        raise CommandError(
            f"the registry {registry} answers {answer.status_code} and no digest for {image}", where=registry
        )
    return digest


def _head(url: str, authorization: str = "") -> requests.Response:
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
