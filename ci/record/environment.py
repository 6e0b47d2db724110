"""What a run's tests ran in, as their own processes said: back end, torch and image. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from ci.core.text import one_line
from ci.record.identity import RunIdentity

_MOST = 300


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class RanIn:
    """What some of the tests ran in; empty where their journal does not say.

    Attributes:
        back_end: what made the device, with its version and commit where they are known.
        torch: its version.
        image: name@sha256:….
    """

    back_end: str = ""
    torch: str = ""
    image: str = ""

    @property
    def known(self) -> bool:
        """Whether its journal says anything of it."""
        return self != RanIn()

    def said(self) -> str:
        """For people."""
        return (
            f"{self.back_end or 'an unknown back end'}, torch {self.torch or 'unknown'}, "
            f"{self.image or 'no image recorded'}"
        )


def ran_in_of(back_end: object, torch: object, image: object) -> RanIn:
    """Of an event or a row of a summary; what is no text counts as not said."""
    found = [one_line(one, _MOST) if isinstance(one, str) else "" for one in (back_end, torch, image)]
    return RanIn(back_end=found[0], torch=found[1], image=found[2])


def as_it_ran(identity: RunIdentity, found: Collection[RanIn]) -> RunIdentity:
    """The identity with the back end and the image of the tests, where all of them had the same.

    The planner wrote its own back end down, and the image that was to be used.
    """
    if len(found) != 1 or not (only := next(iter(found))).known:
        return identity
    return replace(identity, back_end=only.back_end, image=only.image)


def differences(identity: RunIdentity, found: Collection[RanIn]) -> list[str]:
    """What a reader must know: that tests ran in different things, or not in the image that was planned."""
    said = []
    if len(found) > 1:
        said.append(f"tests ran in different environments: {'; '.join(one.said() for one in sorted(found))}")
    others = sorted({one.image for one in found} - {identity.image})
    if identity.image and others:
        said.append(
            f"planned for {identity.image}; ran in "
            + ", ".join(image or "no image recorded" for image in others)
        )
    return said


def all_in(image: str, found: Collection[RanIn]) -> bool:
    """Whether every test is known to have run in an image, by its digest in whatever registry."""
    digest = image.rpartition("@")[2]
    return bool(digest and found) and all(one.image.rpartition("@")[2] == digest for one in found)
