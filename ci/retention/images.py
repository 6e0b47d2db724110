"""Images on the container engine that `spyre-ci image` made: by a label of ours and a tag that only it gives.

An image that somebody built on one of ours has its labels too, and a name of theirs: it is not ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from ci.report.released import Released
from ci.retention.things import Foreign, Found, Thing

IMAGES = "images"
LABEL = "io.github.torch-spyre."
# As the image's own verbs tag them, by what goes in; `cache-` moves to the last one, and is none.
_TAG = re.compile(r"(untested-)?stack-[0-9a-f]{20}|wheel-[0-9a-f]{8,64}")


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
