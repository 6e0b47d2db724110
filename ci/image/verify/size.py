"""How large an image is beside the last one, and which of its layers grew; pure but for asking the engine."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import docker

from ci.core.findings import Finding, judged
from ci.image.build import shown_step
from ci.image.engine import fetch
from ci.image.registry import find_digest
from ci.image.resolved import by_digest

MIB = 1024 * 1024
MOST_SHOWN = 5
SHOWN = 72
_NOP = re.compile(r"^/bin/(?:ba)?sh -c #\(nop\)\s*")
_CONTENT = re.compile(r"\b(dir|file|multi):[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A layer.

    Attributes:
        step: that made it, without what differs between builds.
        size: bytes.
    """

    step: str
    size: int


def layers_of(client: docker.DockerClient, image: str) -> list[Layer]:
    """The layers of an image that the engine has, from the base on."""
    rows = reversed(client.images.get(image).history())
    return [Layer(step=step_of(str(row["CreatedBy"])), size=int(row["Size"])) for row in rows if row["Size"]]


def step_of(created_by: str) -> str:
    """The step that made a layer, as its Containerfile has it."""
    text = _CONTENT.sub(r"\1", _NOP.sub("", created_by))
    if text.startswith("/bin/bash -euo pipefail -c "):
        text = "RUN " + text.removeprefix("/bin/bash -euo pipefail -c ")
    return " ".join(shown_step(text).split()) or "base"


def previous(client: docker.DockerClient, name: str) -> str | None:
    """The image a tag of a registry points to now, by digest, fetched; None where there is none.

    Raises:
        CommandError: the registry cannot be reached, or refuses the credentials.
    """
    digest = find_digest(client, name)
    if digest is None:
        return None
    exact = by_digest(name, digest)
    fetch(client, exact)
    return exact


def grown(before: Sequence[Layer], after: Sequence[Layer]) -> list[tuple[str, int]]:
    """Steps whose layers grew or are new, with the bytes, the most first.

    Args:
        before: of the last image.
        after: of this one. Steps of the same words are taken in their order.
    """
    old = dict(_counted(before))
    more = [(one[0], size - old.get(one, 0)) for one, size in _counted(after)]
    return sorted(((step, size) for step, size in more if size > 0), key=lambda one: (-one[1], one[0]))


def judge_size(
    before: Sequence[Layer] | None, after: Sequence[Layer], *, against: str, most_percent: float
) -> Finding:
    """Whether an image grew by more than it may.

    Args:
        before: of the last image; None: there is none.
        after: of this one.
        against: what the last one is called.
        most_percent: by which it may grow.
    """
    size = sum(one.size for one in after)
    told = f"{size / MIB:.1f} MiB in {len(after)} layers"
    if before is None:
        return Finding(check="size", seen=f"{told}; nothing to compare with: {against}")
    base = sum(one.size for one in before)
    percent = 100 * (size - base) / base if base else 0.0
    seen = f"{told}, {percent:+.1f} % against {against}"
    if percent <= most_percent:
        return Finding(check="size", seen=seen)
    steps = grown(before, after)
    listed = "; ".join(f"{more / MIB:+.1f} MiB {step[:SHOWN]}" for step, more in steps[:MOST_SHOWN])
    return judged(
        "size",
        f"{seen}, more than {most_percent:g} %: {listed}",
        holds=False,
        remedy="make these layers smaller, or raise image.max_growth_percent",
    )


def _counted(layers: Sequence[Layer]) -> list[tuple[tuple[str, int], int]]:
    seen: Counter[str] = Counter()
    counted = []
    for one in layers:
        counted.append(((one.step, seen[one.step]), one.size))
        seen[one.step] += 1
    return counted
