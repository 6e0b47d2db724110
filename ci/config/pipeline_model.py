"""The settings of pipelines: what runs when, where, and how long it may take."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from ci.config.section import Section
from test_selection.patterns import compile_glob

# GitHub ends a job on its own runners after six hours, on others after five days.
Minutes = Annotated[int, Field(ge=1, le=5 * 24 * 60)]
RunnerLabel = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/=-]*$", max_length=256)]
# As GitHub takes them; a comma would be two.
PullRequestLabel = Annotated[str, StringConstraints(pattern=r"^[^,\s][^,\r\n]*$", max_length=50)]


def _glob(text: str) -> str:
    try:
        compile_glob(text)
    except (re.error, RecursionError) as error:
        raise ValueError(f"is no glob: {error}") from error
    return text


PathGlob = Annotated[str, StringConstraints(min_length=1), AfterValidator(_glob)]


class Timeouts(Section):
    """How long each job may take, in minutes; a leg of PyTorch's tests has its own, from its plan.

    Jobs that begin before the settings are read, or must end also where that went wrong, have their own.
    """

    lint: Minutes = Field(default=30, description="minutes of the linters")
    unit: Minutes = Field(default=60, description="minutes of the tests without a device")
    emulated: Minutes = Field(default=60, description="minutes of the tests on the emulated device")
    package: Minutes = Field(default=60, description="minutes of building once and testing the wheel")
    plan: Minutes = Field(default=60, description="minutes of collecting, selecting and planning")
    device: Minutes = Field(default=180, description="minutes of the tests that need cards")
    report: Minutes = Field(default=60, description="minutes of reporting a run")
    image: Minutes = Field(default=300, description="minutes of building and testing the image")
    release: Minutes = Field(default=60, description="minutes of publishing a release")


class Pipeline(Section):
    """What a pull request, a merge queue and a push run."""

    docs: list[PathGlob] = Field(
        default_factory=lambda: [
            "docs/**",
            "**/*.md",
            "**/*.rst",
            "LICENSE",
            "LICENSE.txt",
            "changelog.d/**",
        ],
        description="globs of files that no test is about; where only such files change, code is not tested",
    )
    labels: list[PullRequestLabel] = Field(
        default_factory=lambda: ["ciflow/spyre"],
        description="labels by which a pull request requests PyTorch's tests; with `-stage-N` behind it for "
        "those of stage N",
    )
    pull_request_stage: int | None = Field(
        default=None,
        ge=0,
        description="stage whose PyTorch tests every pull request runs; none: the stage in force where its "
        "tier is pr, else only those that a label asks for",
    )
    merge_group_stage: int | None = Field(
        default=None, ge=0, description="the same for a merge queue; none: as pull requests do"
    )
    push_stage: int | None = Field(
        default=None, ge=0, description="the same for what is pushed to a branch; none: as pull requests do"
    )
    forks: Literal["run", "label", "never"] = Field(
        default="run",
        description="whether a fork's pull request reaches runners with cards: run, label (the commit that a "
        "label asking for PyTorch's tests is set on, and no later one) or never",
    )
    runner: list[RunnerLabel] = Field(
        default_factory=lambda: ["ubuntu-latest"],
        min_length=1,
        description="labels of a runner without cards",
    )
    device_runner: list[RunnerLabel] = Field(
        default_factory=lambda: ["linux", "x86_64", "spyre_pf_x1"],
        min_length=1,
        description="labels of a runner with cards, for the project's own device tests",
    )
    environment: Literal["image", "own"] = Field(
        default="image",
        description="where jobs on those runners and CI jobs of PyTorch's tests run: in the image that the "
        "runner is, as it is and on no emulated device; or in an environment of their own, without cards",
    )
    device_tested: Literal["wheel", "checkout", "installed"] = Field(
        default="wheel",
        description="what a pull request's device tests are of: the wheel that was built; the checkout, "
        "built with what the image has; or what the image has installed",
    )
    shard_s: float = Field(
        default=600,
        gt=0,
        le=7 * 24 * 3600,
        description="seconds a shard should take, so that few tests do not start many jobs; the cards of the "
        "stage are the most there are",
    )
    timeouts: Timeouts = Field(default_factory=Timeouts)
