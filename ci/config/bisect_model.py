"""The settings of a bisect: where commits come from, how one is made ready, and how far a search goes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from ci.config.section import Seconds, Section

Word = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00]+$")]


class Bisect(Section):
    """Finding the commit that broke a test."""

    repository: Path | None = Field(
        default=None, description="clone with PyTorch's history; none: `pytorch.source`, where it is a clone"
    )
    lane: str = Field(default="nightly-main", description="lane whose history gives the ends")
    builder: Literal["checkout", "wheel", "image"] = Field(
        default="checkout",
        description="how a commit is made ready: its tests on the installed torch, a wheel of it built and "
        "installed, or an image of it",
    )
    command: list[Word] = Field(
        default_factory=list,
        description="words of the command that builds a commit: `{tree}`, `{sha}` and `{out}` are put in; "
        "a wheel goes to `{out}`, an image gets the tag `{tag}`",
    )
    image: str = Field(
        default="spyre-ci-bisect",
        pattern=r"^[a-z0-9][a-z0-9._/:-]*$",
        description="name of the images; a commit's SHA is the tag",
    )
    build_timeout_s: Seconds = Field(default=4 * 3600, description="after which a build is given up")
    try_timeout_s: Seconds = Field(default=1800, description="after which one try of the test is given up")
    confidence: float = Field(
        default=0.99, ge=0.5, le=0.9999, description="probability at which a search ends"
    )
    tries: int = Field(default=100, ge=1, le=10_000, description="tries of a commit in a round at most")
    tries_in_all: int = Field(default=2000, ge=1, le=100_000, description="tries of a search at most")
    workers: int = Field(
        default=1, ge=1, le=256, description="commits that are tried side by side, a card each"
    )
    keep_wheels: int = Field(default=20, ge=0, description="built commits that are kept for the next search")

    @model_validator(mode="after")
    def _has_a_command(self) -> Bisect:
        if self.builder != "checkout" and not self.command:
            raise ValueError(f"builder {self.builder} needs a `command` that builds a commit")
        return self
