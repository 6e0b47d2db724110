"""The settings of the roll-out: how much runs when, and what a tier allows a test."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ci.config.section import Seconds, Section

Percent = Annotated[float, Field(ge=0, le=100)]
TierName = Literal["pr", "nightly", "weekly"]


class Stage(Section):
    """A row of the roll-out: how much of PyTorch's in-scope tests runs, on how many cards, how often."""

    percent: Percent = Field(description="share of the in-scope tests, in per cent")
    by: Literal["count", "seconds"] = Field(
        default="count", description="what the share is of: the number of tests, or their seconds"
    )
    cards: int = Field(ge=1, le=4096, description="cards the stage may use")
    cadence: str = Field(min_length=1, description="when it runs")
    blocking: bool = Field(default=True, description="whether a red run blocks a merge")
    tier: TierName = Field(default="nightly", description="whose limits apply: pr, nightly or weekly")


class TierLimits(Section):
    """What a tier allows one test; what needs more moves to a later one and is listed."""

    test_s: Seconds | None = Field(default=None, description="seconds a test may take; none: any")
    cards: int | None = Field(default=None, ge=1, le=4096, description="cards a test may need; none: any")
    memory_gib: float | None = Field(
        default=None, gt=0, le=1e6, description="GiB of memory a test may need; none: any"
    )


class Tiers(Section):
    """The tiers of tests, from the one that runs most often to the one that may take longest."""

    pr: TierLimits = Field(default=TierLimits(test_s=60, cards=1, memory_gib=16))
    nightly: TierLimits = Field(default=TierLimits(test_s=600, cards=8, memory_gib=64))
    weekly: TierLimits = Field(default=TierLimits())


def roll_out() -> dict[int, Stage]:
    """The roll-out, by the number of its rows."""
    often = "3 to 4 times a day"
    return {
        0: Stage(percent=0, cards=24, cadence="no PyTorch tests"),
        1: Stage(percent=5, cards=128, cadence="nightly"),
        2: Stage(percent=25, cards=512, cadence="nightly"),
        3: Stage(percent=50, cards=1024, cadence=often),
        4: Stage(percent=80, cards=2048, cadence=often),
        5: Stage(percent=80, cards=2048, cadence="every pull request", blocking=False, tier="pr"),
    }
