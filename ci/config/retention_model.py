"""The settings of retention: how long, how much and how many of each kind `spyre-ci prune` keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from ci.config.section import Section

KeepDays = Annotated[float, Field(ge=0, le=36_500)]
KeepGib = Annotated[
    Annotated[float, Field(ge=0, le=1_000_000)] | None,
    Field(description="beyond so many GiB goes, the oldest first; none: no size"),
]
KeepLast = Annotated[
    int,
    Field(ge=0, le=1_000_000, description="so many of the newest stay, whatever age and size say"),
]


class Keep(Section):
    """How much of a kind is kept."""

    keep_days: KeepDays | None = Field(default=30, description="older than so many days goes; none: no age")
    keep_gib: KeepGib = None
    keep_last: KeepLast = 10


class KeepStored(Section):
    """How much of a store is kept, beside the `keep_days` of its own section."""

    keep_gib: KeepGib = None
    keep_last: KeepLast = 10


class Retention(Section):
    """What `spyre-ci prune` removes; a release's runs and images stay."""

    releases: list[Path] = Field(
        default_factory=list,
        description="more files and folders whose release.json and statements name what stays, besides "
        "package.dist and package.records",
    )
    runs: Keep = Field(default_factory=Keep)
    reproductions: Keep = Field(default_factory=lambda: Keep(keep_last=0))
    bisects: Keep = Field(default_factory=lambda: Keep(keep_last=0))
    caches: Keep = Field(default_factory=lambda: Keep(keep_last=0))
    worktrees: Keep = Field(default_factory=lambda: Keep(keep_last=1))
    images: Keep = Field(default_factory=lambda: Keep(keep_last=3))
    store: KeepStored = Field(default_factory=KeepStored)
