"""Images of ours on the container engine, found and removed, never by force.

They are known by a label of ours and a tag that only `spyre-ci image` gives: an image that somebody built on
one of ours has its labels too, and a name of theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from typing import Any

import docker
from docker.errors import APIError, ImageNotFound

from ci.core.container_engine import engine, engine_error
from ci.report.released import Released
from ci.retention.removing import KeptError
from ci.retention.things import Foreign, Found, Thing
from ci.steps.context import Context

IMAGES = "images"
LABEL = "io.github.torch-spyre."
# As the image's own verbs tag them, by what goes in.
_TAG = re.compile(r"stack-[0-9a-f]{20}")
# Nothing is built here: an engine that says nothing for so long is not there.
TIMEOUT_S = 120
_DIGEST = re.compile(r"[0-9a-f]{64}")


def find_images(
    images: Iterable[Mapping[str, Any]],
    *,
    in_use: Iterable[str],
    released: Released,
    wanted: Mapping[str, str],
) -> Found:
    """Those of ours among an engine's images. Pure.

    Args:
        images: what it says of each that it has.
        in_use: ids of the images that containers are of.
        released: what releases name.
        wanted: why an image stays, by its digest in hexadecimal.
    """
    used, images = set(in_use), list(images)
    every = [_layers(attrs) for attrs in images]
    things: list[Thing] = []
    foreign: list[Foreign] = []
    for attrs in images:
        number = str(attrs.get("Id", ""))
        labels = (attrs.get("Config") or {}).get("Labels") or {}
        if not any(name.startswith(LABEL) for name in labels):
            continue
        tags: Sequence[str] = attrs.get("RepoTags") or ()
        others = [tag for tag in tags if not is_our_tag(tag)]
        if len(others) == len(tags):
            why = "has our label and no tag of ours: somebody may have built on one of ours"
            foreign.append(Foreign(kind=IMAGES, path=tags[0] if tags else number, why=why))
            continue
        digests = _digests(number, attrs)
        held = [wanted[one] for one in sorted(digests) if one in wanted]
        if digests & released.digests or set(tags) & released.words:
            held.append("a release names it")
        elif released.broken:
            held.append("a release that cannot be read may name it")
        if number in used:
            held.append("a container is of it")
        layers = _layers(attrs)
        if any(len(one) > len(layers) and one[: len(layers)] == layers for one in every):
            held.append("another image stands on it")
        if others:
            held.append(f"has a name that moves, or was given: {min(others)}")
        things.append(
            Thing(
                kind=IMAGES,
                name=min(tags),
                path=number,
                at=_created(attrs),
                own=int(attrs.get("Size") or 0),
                held=tuple(dict.fromkeys(held)),
            )
        )
    return Found(things=things, foreign=foreign)


def _layers(attrs: Mapping[str, Any]) -> list[str]:
    return list((attrs.get("RootFS") or {}).get("Layers") or ())


def is_our_tag(name: str) -> bool:
    """Whether a name is one that our builds give, by its tag."""
    return _TAG.fullmatch(name.rpartition(":")[2]) is not None


def _digests(number: str, attrs: Mapping[str, Any]) -> set[str]:
    """Every digest an image is known by, in hexadecimal."""
    return {one.rpartition("sha256:")[2] for one in (number, *(attrs.get("RepoDigests") or ()))} - {""}


def _created(attrs: Mapping[str, Any]) -> float | None:
    """When it was made, or got its last name here, in seconds since the epoch."""
    said = [attrs.get("Created"), (attrs.get("Metadata") or {}).get("LastTagTime")]
    times = []
    for one in said:
        try:
            # Docker's times have nanoseconds, which Python's have not.
            times.append(datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", str(one))).timestamp())
        except (ValueError, OverflowError):
            continue
    # An image that nobody dated has the year 1, or 1970.
    return max((one for one in times if one > 0), default=None)


def find_on_engine(
    context: Context, stack: ExitStack, released: Released, words: Iterable[str]
) -> tuple[Found, docker.DockerClient]:
    """Images of ours, and the engine, which stays open as long as the stack.

    Args:
        context: the outside world.
        stack: closes the engine.
        released: what releases name.
        words: of the files of runs that stay, digests of their images among them.

    Raises:
        CommandError: there is no engine.
    """
    client = stack.enter_context(engine(context.environ, timeout_s=TIMEOUT_S))
    in_use = [
        str(one.attrs.get("Image") or one.attrs.get("ImageID") or "")
        for one in client.containers.list(all=True)
    ]
    wanted = {
        digest: "a run that stays ran in it"
        for word in words
        for digest in (word.rpartition("sha256:")[2],)
        if _DIGEST.fullmatch(digest)
    }
    found = find_images(
        [one.attrs for one in client.images.list()], in_use=in_use, released=released, wanted=wanted
    )
    return found, client


def remove_image(client: docker.DockerClient, thing: Thing) -> None:
    """Remove an image by our names of it; with the last of its names it goes.

    Raises:
        KeptError: it is gone, has another name by now, or something stands on it.
        CommandError: the engine refuses.
    """
    try:
        tags = client.images.get(thing.path).tags
        if not all(is_our_tag(tag) for tag in tags):
            raise KeptError("got another name meanwhile")
        for tag in tags:
            if client.images.get(tag).id != thing.path:
                raise KeptError("was built anew meanwhile")
            client.images.remove(tag, force=False)
    except ImageNotFound as error:
        raise KeptError("is gone already") from error
    except APIError as error:
        if error.status_code == 409:  # noqa: PLR2004  # HTTP's Conflict
            raise KeptError("a container, or an image that stands on it, uses it") from error
        raise engine_error(error, where=thing.name) from error
