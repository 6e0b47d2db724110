"""Grouping shards into CI jobs, and these in the words of GitHub Actions, Jenkins and Kubernetes.

What CIs are handed is in their form: it carries no schema of ours.
"""

from __future__ import annotations

import heapq
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from test_selection.errors import NothingToRunError, UsageError
from test_selection.plan import Plan, Shard
from test_selection.shard_subset import format_ranges


@dataclass(frozen=True, slots=True, kw_only=True)
class CiJob:
    """A job that serves some shards.

    Attributes:
        shards: indices, sorted; they begin in this order, each as soon as it has its cards.
        cards: how many the leg has.
        expected_s: seconds until its last shard ends.
    """

    shards: tuple[int, ...]
    cards: int
    expected_s: float


def busy_shards(plan: Plan) -> list[Shard]:
    """The shards of a plan that have anything to do.

    Raises:
        NothingToRunError: none has.
    """
    found = [shard for shard in plan.shards if shard.groups]
    if not found:
        raise NothingToRunError("the plan holds no test", remedy="select a share above 0 %, then plan again")
    return found


def choose_cards(shards: Sequence[Shard], runner_cards: Sequence[int], legs: int) -> int:
    """The fewest cards of a leg with which so many legs give every shard cards of its own, else the most."""
    sizes = sorted(size for size in runner_cards if size > 0)
    wanted = sum(shard.cards for shard in shards)
    return next((size for size in sizes if size * legs >= wanted), sizes[-1])


def deal(
    shards: Sequence[Shard], runner_cards: Sequence[int], *, cards_per_leg: int, legs: int | None = None
) -> list[CiJob]:
    """Deal shards to legs so that these end at about the same time: longest first, to whoever is free first.

    A shard that needs more cards than `cards_per_leg` goes to legs that have them.

    Args:
        shards: the shards.
        runner_cards: cards a leg can have.
        cards_per_leg: of the usual leg; one of `runner_cards`, above 0.
        legs: how many there may be; None: as many as give every shard cards of its own.

    Returns:
        Legs with at least one shard each, the longest first, so that a CI that begins few at a time
        begins with those.

    Raises:
        UsageError: no runner has the cards that are asked for, or there are too few legs.
    """
    pools = _pools(shards, runner_cards, cards_per_leg)
    wanted = {size: _own_legs(members, size) for size, members in pools.items()}
    if legs is not None:
        if legs < len(pools):
            raise UsageError(
                f"--jobs is {legs}, but the shards need jobs of {len(pools)} sizes",
                remedy=f"give --jobs {len(pools)} or more, or a greater --cards-per-job",
            )
        wanted = _share(pools, wanted, legs)
    dealt = [leg for size, members in pools.items() for leg in _deal_pool(members, size, wanted[size])]
    return sorted(dealt, key=lambda leg: (-leg.expected_s, leg.shards))


def _pools(shards: Sequence[Shard], runner_cards: Sequence[int], usual: int) -> dict[int, list[Shard]]:
    """The shards by the size of the legs they go to."""
    sizes = sorted(size for size in runner_cards if size > 0)
    if usual not in sizes:
        raise UsageError(
            f"--cards-per-job is {usual}",
            remedy=f"runners have {', '.join(map(str, sizes))} cards; see `matrix.runner_cards`",
        )
    pools: dict[int, list[Shard]] = {}
    for shard in shards:
        size = next((one for one in sizes if one >= max(usual, shard.cards)), None)
        if size is None:
            raise UsageError(
                f"shard {shard.index} needs {shard.cards} cards, but no runner has more than {sizes[-1]}",
                remedy="add such runners to `matrix.runner_cards`, or deselect its tests",
            )
        pools.setdefault(size, []).append(shard)
    return dict(sorted(pools.items()))


def _own_legs(members: Sequence[Shard], size: int) -> int:
    """How many legs give every shard cards of its own, by first fit decreasing."""
    room = [0] * len(members)  # cards still free in each leg that was opened
    opened = first = 0
    for shard in sorted(members, key=lambda shard: -shard.cards):
        # Shards only get narrower: a leg without a free card never has one again.
        while first < opened and room[first] == 0:
            first += 1
        leg = next((one for one in range(first, opened) if room[one] >= shard.cards), opened)
        if leg == opened:
            room[leg] = size
            opened += 1
        room[leg] -= shard.cards
    return opened


def _share(pools: dict[int, list[Shard]], most: dict[int, int], legs: int) -> dict[int, int]:
    """Share out legs over the pools by their work, at least one each and never more than useful."""
    work = {size: sum(shard.expected_s * shard.cards for shard in members) for size, members in pools.items()}
    given = dict.fromkeys(pools, 1)
    for _ in range(legs - len(pools)):
        open_pools = [size for size in pools if given[size] < most[size]]
        if not open_pools:
            break
        given[max(open_pools, key=lambda size: (work[size] / (size * given[size]), -size))] += 1
    return given


def _deal_pool(members: Sequence[Shard], size: int, legs: int) -> list[CiJob]:
    free = [[0.0] * size for _ in range(legs)]  # when each card of each leg is free, sorted
    work = [0.0] * legs
    mine: list[list[Shard]] = [[] for _ in range(legs)]
    for width in sorted({shard.cards for shard in members}, reverse=True):
        # Who can begin first; of those, who has the least to do.
        heap = [(free[leg][width - 1], work[leg], len(mine[leg]), leg) for leg in range(legs)]
        heapq.heapify(heap)
        same = [shard for shard in members if shard.cards == width]
        for shard in sorted(same, key=lambda shard: (-shard.expected_s, shard.index)):
            start, _, _, leg = heap[0]
            free[leg][:width] = [start + shard.expected_s] * width
            free[leg].sort()
            work[leg] += shard.expected_s * width
            mine[leg].append(shard)
            heapq.heapreplace(heap, (free[leg][width - 1], work[leg], len(mine[leg]), leg))
    return [_leg(sorted(one, key=lambda shard: shard.index), size) for one in mine if one]


def _leg(shards: Sequence[Shard], size: int) -> CiJob:
    """The leg with its end as it will come about: shards begin in the order of their indices."""
    free = [0.0] * size
    for shard in shards:
        free[: shard.cards] = [free[shard.cards - 1] + shard.expected_s] * shard.cards
        free.sort()
    return CiJob(shards=tuple(shard.index for shard in shards), cards=size, expected_s=free[-1])


# docs.github.com, "Actions limits" and "Passing information between jobs": 256 jobs a matrix; a job's outputs
# 1 MB, reckoned in UTF-16; a job on a self-hosted runner five days.
GITHUB_LEGS = 256
GITHUB_OUTPUT_BYTES = 1_000_000
MAX_MINUTES = 5 * 24 * 60
MINUTE_S = 60
WAIT_MINUTES, TRIES = 24 * 60, 3
Beyond = Literal["matrices", "indexed-job"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """What the settings say of legs.

    Attributes:
        labels: of a runner; `{cards}` stands for its cards.
        timeout_factor: how many times its expected seconds a leg may take.
        timeout_extra_minutes: what it may take besides: checking out, images, a hang or two.
        beyond: what becomes of more legs than a GitHub matrix has.
        fewest_cards: of any runner; the leg that hands over needs no more.
    """

    labels: Sequence[str]
    timeout_factor: float
    timeout_extra_minutes: int
    beyond: Beyond = "matrices"
    fewest_cards: int = 0


def github_matrix(legs: Sequence[CiJob], wording: Wording) -> tuple[dict[str, Any], str]:
    """A matrix for `strategy.matrix: ${{ fromJSON(…) }}`.

    Up to 256 legs it has a row a leg. Beyond, by `wording.beyond`: a row for each of several matrices,
    `matrix` being its JSON as text, for a job that calls a reusable workflow once a row; or a single row
    with `hand_over`, for a leg on the least runner that submits an Indexed Job.

    Returns:
        The matrix, and why it is not a plain one; empty where it is.

    Raises:
        UsageError: it would be longer than an output of a GitHub job may be.
    """
    rows = [{"leg": number, **_github_row(leg, wording)} for number, leg in enumerate(legs)]
    content, why = {"include": rows}, ""
    if len(legs) > GITHUB_LEGS:
        why = f"{len(legs):,} jobs are more than the {GITHUB_LEGS} of a GitHub matrix: "
        if wording.beyond == "indexed-job":
            content = {"include": [_hand_over(legs, wording)]}
            why += "one job submits an Indexed Job"
        else:
            content = {"include": _several(rows)}
            why += f"{len(content['include'])} matrices, each for one call of the reusable workflow"
    size = 2 * len(to_json(content))
    if size > GITHUB_OUTPUT_BYTES:
        raise UsageError(
            f"the matrix of {len(legs):,} jobs takes {size:,} bytes of a job's output, "
            f"of which GitHub allows {GITHUB_OUTPUT_BYTES:,}",
            remedy="give a greater --cards-per-job or fewer --jobs, or set `matrix.beyond` to indexed-job",
        )
    return content, why


def jenkins_branches(legs: Sequence[CiJob], wording: Wording) -> dict[str, Any]:
    """Branches for `parallel`, by name, as `readJSON` takes them; the names sort as the legs do."""
    digits = max(3, len(str(len(legs) - 1)))
    return {
        f"leg-{number:0{digits}}": _row(leg, wording, "label", " && ".join(_labels(leg.cards, wording)))
        for number, leg in enumerate(legs)
    }


def indexed_job(legs: Sequence[CiJob], wording: Wording) -> dict[str, Any]:
    """The numbers of an Indexed Job: an index is a pod, which serves the shards at its place of `shards`."""
    slowest = max(leg.expected_s for leg in legs)
    return {
        "completions": len(legs),
        "parallelism": len(legs),
        "cards_per_pod": max(leg.cards for leg in legs),
        "activeDeadlineSeconds": _minutes(slowest, wording) * MINUTE_S,
        "expected_s": round(slowest, 3),
        "shards": [format_ranges(leg.shards) for leg in legs],
    }


def to_json(content: object) -> str:
    """One line, as `$GITHUB_OUTPUT` wants it; the same content gives the same bytes."""
    return json.dumps(content, separators=(",", ":"))


def _github_row(leg: CiJob, wording: Wording) -> dict[str, Any]:
    return _row(leg, wording, "runs_on", _labels(leg.cards, wording))


def _row(leg: CiJob, wording: Wording, key: str, runner: object) -> dict[str, Any]:
    return {
        "shards": format_ranges(leg.shards),
        "cards": leg.cards,
        key: runner,
        "expected_s": round(leg.expected_s, 3),
        "timeout_minutes": _minutes(leg.expected_s, wording),
    }


def _several(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Matrices of nearly the same number of legs, as few as there can be."""
    count = math.ceil(len(rows) / GITHUB_LEGS)
    cuts = [len(rows) * number // count for number in range(count + 1)]
    return [
        {"call": number, "legs": last - first, "matrix": to_json({"include": list(rows[first:last])})}
        for number, (first, last) in enumerate(itertools.pairwise(cuts))
    ]


def _hand_over(legs: Sequence[CiJob], wording: Wording) -> dict[str, Any]:
    slowest = max(leg.expected_s for leg in legs)
    shards = tuple(index for leg in legs for index in leg.shards)
    whole = CiJob(shards=shards, cards=wording.fewest_cards, expected_s=slowest)
    row = _github_row(whole, wording)
    # It waits for the cluster's cards, too, and for pods that are replaced.
    minutes = min(MAX_MINUTES, WAIT_MINUTES + TRIES * int(row["timeout_minutes"]))
    return {"leg": 0, **row, "timeout_minutes": minutes, "hand_over": "indexed-job"}


def _labels(cards: int, wording: Wording) -> list[str]:
    return [label.replace("{cards}", str(cards)) for label in wording.labels]


def _minutes(expected_s: float, wording: Wording) -> int:
    minutes = math.ceil(expected_s * wording.timeout_factor / MINUTE_S) + wording.timeout_extra_minutes
    return max(1, min(MAX_MINUTES, minutes))
