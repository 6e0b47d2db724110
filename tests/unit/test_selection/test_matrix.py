"""Matrices hold every shard once, keep to the limits of those they are for, and are byte-stable."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.errors import UsageError
from test_selection.legs import Leg, Load, choose_cards, deal
from test_selection.matrix import (
    GITHUB_OUTPUT_BYTES,
    MAX_MINUTES,
    Wording,
    github_matrix,
    indexed_job,
    jenkins_branches,
    to_json,
)
from test_selection.ranges import parse_ranges

Golden = Callable[[str, str], None]
RUNNERS = (0, 1, 2, 4)
WORDING = Wording(labels=["linux", "spyre_pf_x{cards}"], timeout_factor=3, timeout_extra_minutes=30)
HAND_OVER = replace(WORDING, beyond="indexed-job")
FORMS: dict[str, Callable[[Sequence[Leg], Wording], Any]] = {
    "github": lambda legs, wording: github_matrix(legs, wording)[0],
    "jenkins": jenkins_branches,
    "indexed-job": indexed_job,
}


def legs_of(shards: int) -> list[Leg]:
    """Shards as a plan has them: nearly equal, some longer."""
    chance = random.Random(shards)  # noqa: S311  # a fixed plan, no secret
    loads = [Load(index=one, expected_s=300.0 + round(chance.expovariate(0.1), 3)) for one in range(shards)]
    return deal(loads, RUNNERS, cards_per_leg=choose_cards(loads, RUNNERS, 256))


def matrices(content: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of legs, in whichever of the forms."""
    rows = content["include"]
    return (
        [leg for row in rows for leg in json.loads(row["matrix"])["include"]] if "matrix" in rows[0] else rows
    )


def shards_of(form: str, content: Any) -> list[int]:
    if form == "github":
        texts = [row["shards"] for row in matrices(content)]
    elif form == "jenkins":
        texts = [branch["shards"] for branch in content.values()]
    else:
        texts = content["shards"]
    # Each leg apart: a shard that stands in two of them comes twice.
    return sorted(index for text in texts for index in parse_ranges([text], 10_000))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shards", [6, 300, 2048])
def test_the_bytes_are_those_of_the_golden_copy(golden: Golden, form: str, shards: int) -> None:
    content = FORMS[form](legs_of(shards), WORDING)
    assert shards_of(form, content) == list(range(shards))
    golden(f"matrix/{form}-{shards}.json", to_json(content) + "\n")


@given(st.integers(1, 4096), st.sampled_from(sorted(FORMS)), st.sampled_from([WORDING, HAND_OVER]))
def test_every_shard_stands_in_exactly_one_leg(shards: int, form: str, wording: Wording) -> None:
    content = FORMS[form](legs_of(shards), wording)
    assert shards_of(form, content) == list(range(shards))
    assert "\n" not in to_json(content)


@given(st.integers(1, 4096))
def test_a_github_matrix_keeps_to_its_limits(shards: int) -> None:
    content, why = github_matrix(legs_of(shards), WORDING)
    assert 2 * len(to_json(content)) <= GITHUB_OUTPUT_BYTES
    assert len(content["include"]) <= 256
    assert bool(why) == (shards > 1024)
    for row in content["include"]:
        assert len(json.loads(row["matrix"])["include"]) == row["legs"] <= 256 if why else "matrix" not in row
    legs = matrices(content)
    assert [leg["leg"] for leg in legs] == list(range(len(legs)))


def test_more_legs_than_a_matrix_has_become_several_and_it_is_said() -> None:
    content, why = github_matrix(legs_of(2048), WORDING)
    assert [(row["call"], row["legs"]) for row in content["include"]] == [(0, 256), (1, 256)]
    assert why == (
        "512 legs are more than the 256 of a GitHub matrix: 2 matrices, each for one call of the "
        "reusable workflow"
    )


def test_or_one_leg_on_the_least_runner_hands_over_to_a_cluster_job() -> None:
    least, _ = github_matrix(legs_of(2048), replace(HAND_OVER, fewest_cards=1))
    assert least["include"][0]["runs_on"] == ["linux", "spyre_pf_x1"]
    content, why = github_matrix(legs_of(2048), HAND_OVER)
    (row,) = content["include"]
    assert row["hand_over"] == "indexed-job"
    assert (row["shards"], row["cards"], row["runs_on"]) == ("0-2047", 0, ["linux", "spyre_pf_x0"])
    assert why.endswith("one leg hands over to an Indexed Job")


def test_what_fits_a_matrix_is_never_handed_over() -> None:
    assert github_matrix(legs_of(1024), HAND_OVER) == github_matrix(legs_of(1024), WORDING)


def test_a_matrix_too_long_for_an_output_is_refused() -> None:
    legs = [Leg(shards=(number,), cards=1, expected_s=1.0) for number in range(4096)]
    with pytest.raises(
        UsageError, match=r"the matrix of 4,096 legs takes .* of which GitHub allows 1,000,000"
    ):
        github_matrix(legs, WORDING)
    assert github_matrix(legs, HAND_OVER)[0]["include"][0]["shards"] == "0-4095"


def test_an_indexed_job_has_a_pod_for_each_list_of_shards() -> None:
    found = indexed_job(
        [Leg(shards=(0, 2), cards=2, expected_s=60.0), Leg(shards=(1,), cards=2, expected_s=5.0)], WORDING
    )
    assert found == {
        "completions": 2,
        "parallelism": 2,
        "cards_per_pod": 2,
        "activeDeadlineSeconds": 33 * 60,
        "expected_s": 60.0,
        "shards": ["0,2", "1"],
    }


@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_a_time_out_is_at_least_a_minute_and_at_most_five_days(seconds: float) -> None:
    short = replace(WORDING, timeout_extra_minutes=0)
    row = jenkins_branches([Leg(shards=(0,), cards=1, expected_s=seconds)], short)["leg-000"]
    assert row["timeout_minutes"] == (1 if seconds == 0 else MAX_MINUTES)
