"""Images that `spyre-ci image` built, on the container engine; none is removed by force.

They are recognized by a label and a tag of ours: an image built on one of ours has the label too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Any

import docker
from docker.errors import APIError, ImageNotFound

from ci.core.container_engine import engine_error
from ci.report.released import Released
from ci.retention.rules import Item, KeptError

IMAGES = "images"
LABEL = "io.github.torch-spyre."
_TAG = re.compile(r"stack-[0-9a-f]{20}")


def find_images(client: docker.DockerClient, released: Released) -> list[Item]:
    """Find images of ours that the engine has."""
    containers = client.containers.list(all=True, ignore_removed=True)
    used = {str(one.attrs.get("Image") or one.attrs.get("ImageID")) for one in containers}
    attrs = [image.attrs for image in client.images.list()]
    return [_item(client, one, used, released) for one in attrs if _is_ours(one)]


def _is_ours(attrs: Mapping[str, Any]) -> bool:
    labels = (attrs.get("Config") or {}).get("Labels") or {}
    return any(map(is_our_tag, attrs.get("RepoTags") or ())) and any(one.startswith(LABEL) for one in labels)


def is_our_tag(name: str) -> bool:
    """True if an image's name has a tag that our builds give."""
    return _TAG.fullmatch(name.rpartition(":")[2]) is not None


def _item(
    client: docker.DockerClient, attrs: Mapping[str, Any], used: Collection[str], released: Released
) -> Item:
    number, tags = str(attrs["Id"]), attrs["RepoTags"]
    # An undated image has the year 1 or 1970.
    times = (attrs.get("Created"), (attrs.get("Metadata") or {}).get("LastTagTime"))
    dates = [datetime.fromisoformat(one).timestamp() for one in times if one]
    return Item(
        kind=IMAGES,
        name=min(filter(is_our_tag, tags)),
        path=number,
        at=max((one for one in dates if one > 0), default=None),
        bytes=int(attrs.get("Size") or 0),
        held=_why_held(number, tags, attrs.get("RepoDigests") or (), used, released),
        remove=partial(_remove, client),
    )


def _why_held(
    number: str, tags: Sequence[str], digests: Sequence[str], used: Collection[str], released: Released
) -> str:
    known = {one.rpartition("sha256:")[2] for one in (number, *digests)}
    if known & released.digests or released.words.intersection(tags):
        return "a release names it"
    if released.broken:
        return "a release that cannot be read may name it"
    if number in used:
        return "a container uses it"
    others = [tag for tag in tags if not is_our_tag(tag)]
    return f"it has another tag: {min(others)}" if others else ""


def _remove(client: docker.DockerClient, item: Item) -> None:
    """Remove an image by its tags.

    Raises:
        KeptError: it is gone, in use, or was tagged since it was found.
        SpyreCiError: the engine refuses.
    """
    try:
        tags = client.images.get(item.path).tags
        if not tags or not all(map(is_our_tag, tags)):
            raise KeptError("tagged meanwhile" if tags else "removed meanwhile")
        for tag in tags:
            client.images.remove(tag, force=False)
    except ImageNotFound as error:
        raise KeptError("removed meanwhile") from error
    except APIError as error:
        if error.status_code == HTTPStatus.CONFLICT:
            raise KeptError("a container or another image uses it") from error
        raise engine_error(error, where=item.name) from error
