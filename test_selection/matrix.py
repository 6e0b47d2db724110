"""Legs in the words of a CI: a matrix of GitHub Actions, branches of Jenkins, an Indexed Job of Kubernetes.

These are for other programs, in their form: they carry no schema of ours.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from test_selection.errors import UsageError
from test_selection.legs import Leg
from test_selection.ranges import format_ranges

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


def github_matrix(legs: Sequence[Leg], wording: Wording) -> tuple[dict[str, Any], str]:
    """A matrix for `strategy.matrix: ${{ fromJSON(…) }}`.

    Up to 256 legs it has a row a leg. Beyond, by `wording.beyond`: a row for each of several matrices,
    `matrix` being its JSON as text, for a job that calls a reusable workflow once a row; or a single row
    with `hand_over`, for a leg on the least runner that submits an Indexed Job.

    Returns:
        The matrix, and why it is not a plain one; empty where it is.

    Raises:
        UsageError: it would be longer than an output of a GitHub job may be.
    """
    rows = [{"leg": number, **_row(leg, wording)} for number, leg in enumerate(legs)]
    content, why = {"include": rows}, ""
    if len(legs) > GITHUB_LEGS:
        why = f"{len(legs):,} legs are more than the {GITHUB_LEGS} of a GitHub matrix: "
        if wording.beyond == "indexed-job":
            content = {"include": [_hand_over(legs, wording)]}
            why += "one leg hands over to an Indexed Job"
        else:
            content = {"include": _several(rows)}
            why += f"{len(content['include'])} matrices, each for one call of the reusable workflow"
    size = 2 * len(to_json(content))
    if size > GITHUB_OUTPUT_BYTES:
        raise UsageError(
            f"the matrix of {len(legs):,} legs takes {size:,} bytes of a job's output, "
            f"of which GitHub allows {GITHUB_OUTPUT_BYTES:,}",
            remedy="give more --cards-per-leg or fewer --legs, or set `matrix.beyond` to indexed-job",
        )
    return content, why


def jenkins_branches(legs: Sequence[Leg], wording: Wording) -> dict[str, Any]:
    """Branches for `parallel`, by name, as `readJSON` takes them; the names sort as the legs do."""
    digits = max(3, len(str(len(legs) - 1)))
    return {
        f"leg-{number:0{digits}}": {
            "shards": format_ranges(leg.shards),
            "cards": leg.cards,
            "label": " && ".join(_labels(leg.cards, wording)),
            "expected_s": round(leg.expected_s, 3),
            "timeout_minutes": _minutes(leg.expected_s, wording),
        }
        for number, leg in enumerate(legs)
    }


def indexed_job(legs: Sequence[Leg], wording: Wording) -> dict[str, Any]:
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


def _row(leg: Leg, wording: Wording) -> dict[str, Any]:
    return {
        "shards": format_ranges(leg.shards),
        "cards": leg.cards,
        "runs_on": _labels(leg.cards, wording),
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


def _hand_over(legs: Sequence[Leg], wording: Wording) -> dict[str, Any]:
    slowest = max(leg.expected_s for leg in legs)
    shards = tuple(index for leg in legs for index in leg.shards)
    whole = Leg(shards=shards, cards=wording.fewest_cards, expected_s=slowest)
    row = _row(whole, wording)
    # It waits for the cluster's cards, too, and for pods that are replaced.
    minutes = min(MAX_MINUTES, WAIT_MINUTES + TRIES * int(row["timeout_minutes"]))
    return {"leg": 0, **row, "timeout_minutes": minutes, "hand_over": "indexed-job"}


def _labels(cards: int, wording: Wording) -> list[str]:
    return [label.replace("{cards}", str(cards)) for label in wording.labels]


def _minutes(expected_s: float, wording: Wording) -> int:
    minutes = math.ceil(expected_s * wording.timeout_factor / MINUTE_S) + wording.timeout_extra_minutes
    return max(1, min(MAX_MINUTES, minutes))
