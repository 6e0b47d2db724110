"""What a registry has: the digest of an image and the tags of a repository, asked over HTTP.

By OCI's distribution specification, with what `docker login` or `podman login` left, or with a token from
where the registry's `WWW-Authenticate` says.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import requests
from docker import auth
from docker.credentials.errors import StoreError
from docker.errors import DockerException

from ci.core.addresses import is_loopback
from ci.core.errors import EXIT_INCOMPLETE, CommandError, MissingInputError
from ci.core.http import as_nobody, session

# As OCI's distribution specification has them.
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
# Signatures, SBOMs and other things beside an image are tagged by its digest (cosign, OCI's fall-back).
_BESIDE = re.compile(r"sha256-[0-9a-f]{64}(\.[a-z]+)?")
WHOLE_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_QUOTED = re.compile(r'(\w+)="([^"]*)"')
_MOST_PAGES = 100
TIMEOUT_S = 30
_HUB, _HUB_ADDRESS = "docker.io", "registry-1.docker.io"
_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.docker.distribution.manifest.v2+json"
)


class RegistryAwayError(CommandError):
    """A registry that is not reached, or does not answer as one: another time may do."""

    exit_code = EXIT_INCOMPLETE


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageName:
    """The parts of an image's name.

    Attributes:
        repository: as it is written, without tag and digest.
        tag: empty where none is written.
        digest: `sha256:…`; empty where none is written.
    """

    repository: str
    tag: str = ""
    digest: str = ""

    @property
    def registry(self) -> str:
        """The registry's host, perhaps with a port; Docker's where none is written."""
        first, slash, _ = self.repository.partition("/")
        return first if slash and (set(".:") & set(first) or first == "localhost") else _HUB

    @property
    def path(self) -> str:
        """The repository within its registry."""
        if self.registry != _HUB:
            return self.repository.partition("/")[2]
        path = self.repository.removeprefix(f"{_HUB}/")
        return path if "/" in path else f"library/{path}"


def parse_image(image: str) -> ImageName:
    """The parts of an image's name; what stands behind the colon of a registry is a port, and no tag.

    Args:
        image: such as registry:5000/a/b:tag, with a digest after `@`, or both.
    """
    name, _, digest = image.partition("@")
    folder, slash, last = name.rpartition("/")
    base, _, tag = last.partition(":")
    return ImageName(repository=f"{folder}{slash}{base}", tag=tag, digest=digest)


def by_digest(image: str, digest: str) -> str:
    """An image's name with a digest in the place of its tag, or of the digest it has."""
    return f"{parse_image(image).repository}@{digest}"


def digest_of(image: str) -> str:
    """The digest of an image in its registry, `sha256:…`.

    Raises:
        MissingInputError: the registry has no such image, or shows it to nobody unknown.
        CommandError: the registry cannot be reached, or refuses the credentials.
    """
    found = find_digest(image)
    if found is None:
        raise _missing(image)
    return found


def find_digest(image: str) -> str | None:
    """The digest of an image in its registry; None where it has none of that name.

    Raises:
        CommandError: the registry refuses the credentials.
        RegistryAwayError: it cannot be reached, or answers otherwise.
    """
    name = parse_image(image)
    url = f"{_address(name.registry)}/v2/{name.path}/manifests/{name.digest or name.tag or 'latest'}"
    answer = _ask("HEAD", url, image, {"Accept": _MANIFESTS})
    if answer.status_code == requests.codes.not_found:
        return None
    digest = answer.headers.get("Docker-Content-Digest", "")
    if answer.status_code != requests.codes.ok or not WHOLE_DIGEST.fullmatch(digest):
        raise _answers(name.registry, f"{answer.status_code} and no digest for {image}")
    return digest


def tags_of(repository: str) -> list[str]:
    """The tags of a repository, in order, without those of what stands beside images.

    Args:
        repository: registry and repository, as engines take them, without a tag.

    Raises:
        MissingInputError: the registry has no such repository, or shows it to nobody unknown.
        CommandError: the registry refuses the credentials.
        RegistryAwayError: it cannot be reached, or answers otherwise.
    """
    name = parse_image(repository)
    found: set[str] = set()
    url = f"{_address(name.registry)}/v2/{name.path}/tags/list?n=1000"
    for _ in range(_MOST_PAGES):
        answer = _ask("GET", url, repository, {})
        if answer.status_code == requests.codes.not_found:
            raise _missing(repository)
        found.update(_page(answer, repository, name.registry))
        following = answer.links.get("next", {}).get("url")
        if following is None:
            return sorted(one for one in found if TAG.fullmatch(one) and not _BESIDE.fullmatch(one))
        here, url = urlsplit(url)[:2], urljoin(url, following)
        # Credentials are sent there too.
        if urlsplit(url)[:2] != here:
            raise _answers(name.registry, f"that the next tags of {repository} are elsewhere")
    raise _answers(name.registry, f"more than {_MOST_PAGES} pages of tags for {repository}")


def _page(answer: requests.Response, repository: str, registry: str) -> list[str]:
    try:
        tags = answer.json()["tags"] or []
    except (ValueError, KeyError, TypeError):
        tags = None
    if answer.status_code != requests.codes.ok or not isinstance(tags, list):
        raise _answers(registry, f"{answer.status_code} and no tags for {repository}")
    return list(map(str, tags))


def _missing(image: str) -> MissingInputError:
    return MissingInputError(
        f"there is no image {image}",
        where=parse_image(image).registry,
        remedy="check its name and tag; a private one needs `docker login` first",
    )


def _answers(registry: str, what: str) -> RegistryAwayError:
    return RegistryAwayError(f"the registry {registry} answers {what}", where=registry)


def _address(registry: str) -> str:
    """Where a registry is asked; over plain HTTP on this machine alone."""
    address = _HUB_ADDRESS if registry == _HUB else registry
    scheme = "http" if is_loopback(urlsplit(f"//{address}").hostname or "") else "https"
    return f"{scheme}://{address}"


def _ask(method: str, url: str, image: str, headers: Mapping[str, str]) -> requests.Response:
    """What a registry answers, with credentials where it wants them."""
    name = parse_image(image)
    try:
        answer = _send(method, url, headers)
        if answer.status_code == requests.codes.unauthorized:
            said = answer.headers.get("WWW-Authenticate", "")
            known = _authorization(said, _credentials(name.registry), name.path)
            answer = _send(method, url, {**headers, **({"Authorization": known} if known else {})})
    except (requests.RequestException, ValueError, DockerException, StoreError) as error:
        raise RegistryAwayError(
            f"the registry {name.registry} does not answer for {image}: {type(error).__name__}",
            where=name.registry,
            remedy="check that it can be reached from here",
        ) from error
    if answer.status_code in {requests.codes.unauthorized, requests.codes.forbidden}:
        raise CommandError(
            f"the registry refuses the credentials for {image}",
            where=name.registry,
            remedy=f"log in: docker login {name.registry}",
        )
    return answer


def _send(
    method: str,
    url: str,
    headers: Mapping[str, str],
    *,
    params: Mapping[str, str] | None = None,
    auth: tuple[str, str] | None = None,
) -> requests.Response:
    with session(url) as made:
        return made.request(
            method,
            url,
            headers=headers,
            params=params,
            auth=auth or as_nobody,  # ~/.netrc would take the place of a token
            timeout=TIMEOUT_S,
            allow_redirects=False,
        )


def _credentials(registry: str) -> tuple[str, str] | None:
    """User and password, as `podman login`, `buildah login` or `docker login` left them."""
    for path in (*filter(Path.is_file, _podman_files()), None):
        found = auth.load_config(path).resolve_authconfig(registry) or {}
        user, password = found.get("username"), found.get("password")
        if user and password:
            return user, password
    return None


def _podman_files() -> list[Path]:
    """Where podman and buildah keep logins; see containers-auth.json(5)."""
    if named := os.environ.get("REGISTRY_AUTH_FILE"):
        return [Path(named)]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return [
        Path(runtime, "containers/auth.json") if runtime else Path(f"/run/containers/{os.getuid()}/auth.json")
    ]


def _authorization(said: str, known: tuple[str, str] | None, repository: str) -> str:
    kind, _, rest = said.partition(" ")
    if kind.lower() == "basic" and known:
        return f"Basic {base64.b64encode(':'.join(known).encode()).decode()}"
    fields = dict(_QUOTED.findall(rest))
    if kind.lower() != "bearer" or not fields.get("realm"):
        return ""
    realm = urlsplit(fields["realm"])
    # Credentials go over no line that others read.
    if realm.scheme != "https" and not is_loopback(realm.hostname or ""):
        return ""
    query = {"service": fields.get("service", ""), "scope": f"repository:{repository}:pull"}
    answer = _send("GET", fields["realm"], {}, params=query, auth=known)
    if answer.status_code != requests.codes.ok:
        return ""
    token = answer.json()
    return f"Bearer {token.get('token') or token.get('access_token') or ''}"
