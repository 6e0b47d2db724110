"""`spyre-ci matrix`: a plan's shards, grouped into the jobs of a CI."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ci.config import completing
from ci.config.run_model import Matrix
from ci.core.text import counted
from ci.steps import options
from ci.steps.folder import find_plan
from test_selection.ci_jobs import (
    GITHUB_LEGS,
    CiJob,
    Wording,
    busy_shards,
    choose_cards,
    deal,
    github_matrix,
    indexed_job,
    jenkins_branches,
    to_json,
)
from test_selection.files import write_text
from test_selection.plan import Plan, read_plan


class Target(StrEnum):
    """The CI that runs the jobs."""

    GITHUB = "github"
    JENKINS = "jenkins"
    INDEXED_JOB = "indexed-job"


def matrix(
    ctx: typer.Context,
    plan: Annotated[
        str,
        typer.Argument(
            metavar="PLAN|RUN", help="Plan file, run folder, id or `latest`.", autocompletion=completing.runs
        ),
    ],
    target: Annotated[Target, typer.Option("--for", help="The CI that runs the jobs.")],
    cards_per_job: Annotated[
        int | None, typer.Option(help="Cards of a job; default: the fewest that need at most 256 jobs.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=4096, help="Jobs at most; default: a card for every shard.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File to write; default: print it.")] = None,
) -> None:
    """Group a plan's shards into CI jobs of about equal duration, as one line of JSON.

    Example: spyre-ci matrix latest --for github --cards-per-job 4
    """
    context = options.make_context(ctx, {}, json_output=out is None)
    settings = context.settings.model.matrix
    dealt = legs_of(read_plan(find_plan(context.runs, plan)), settings, target, cards_per_job, jobs)
    content, why = worded(dealt, settings, target)
    if out is None:
        typer.echo(to_json(content))
    else:
        write_text(out, to_json(content) + "\n")
    longest = max(leg.expected_s for leg in dealt)
    shards = sum(len(leg.shards) for leg in dealt)
    context.say(
        f"{counted(shards, 'shard')} in {counted(len(dealt), 'CI job')}, about {longest:.1f} s"
        + (f"; {why}" if why else "")
    )


def legs_of(
    plan: Plan, settings: Matrix, target: Target, cards: int | None = None, legs: int | None = None
) -> list[CiJob]:
    """A plan's shards, dealt.

    Args:
        plan: with at least one test.
        settings: of legs.
        target: whose jobs they are.
        cards: of a leg; None: the fewest that need no more legs than a matrix has.
        legs: at most; None: as many as give every shard cards of its own.

    Raises:
        NothingToRunError: the plan holds no test.
        UsageError: no runner has the cards, or there are too few legs.
    """
    loads = busy_shards(plan)
    usual = cards if cards is not None else choose_cards(loads, settings.runner_cards, legs or GITHUB_LEGS)
    dealt = deal(loads, settings.runner_cards, cards_per_leg=usual, legs=legs)
    widest = max(leg.cards for leg in dealt)
    if target is Target.INDEXED_JOB and widest > usual:
        # The pods of one job are alike.
        return deal(loads, settings.runner_cards, cards_per_leg=widest, legs=legs)
    return dealt


def worded(legs: Sequence[CiJob], settings: Matrix, target: Target) -> tuple[dict[str, Any], str]:
    """Legs in the words of a CI, and why they are no plain matrix; empty where they are.

    Raises:
        UsageError: they do not fit into what GitHub hands on.
    """
    wording = Wording(
        labels=settings.labels,
        timeout_factor=settings.timeout_factor,
        timeout_extra_minutes=settings.timeout_extra_minutes,
        beyond=settings.beyond,
        fewest_cards=min(settings.runner_cards),
    )
    if target is Target.GITHUB:
        return github_matrix(legs, wording)
    words = jenkins_branches if target is Target.JENKINS else indexed_job
    return words(legs, wording), ""
