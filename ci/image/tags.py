"""Which tags a repository of images has, asked of its registry: no engine asks for them."""

from __future__ import annotations

import re
from functools import partial
from urllib.parse import urljoin, urlsplit

import requests

from ci.core.errors import MissingInputError
from ci.image.manifests import TIMEOUT_S, RefusedError, RegistryAwayError, address_of, asked, split_image
from ci.image.registry import registry_error

# As OCI's distribution specification has them.
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
# Signatures, SBOMs and other things beside an image are tagged by its digest (cosign, OCI's fall-back).
_BESIDE = re.compile(r"sha256-[0-9a-f]{64}(\.[a-z]+)?")
_MOST_PAGES = 100


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
