"""Every shard with work is in exactly one leg that has its cards, and legs end together."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.ci_jobs import (
    GITHUB_OUTPUT_BYTES,
    MAX_MINUTES,
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
from test_selection.errors import NothingToRunError, UsageError
from test_selection.plan import Group, Plan, Shard
from test_selection.shard_subset import parse_ranges


def load(index: int, expected_s: float, cards: int = 1) -> Shard:
    return Shard(index=index, expected_s=expected_s, groups=(), cards=cards)


RUNNERS = (0, 1, 2, 4)
narrow = st.lists(st.floats(0, 1e5), min_size=1, max_size=60).map(
    lambda times: [load(index=number, expected_s=seconds) for number, seconds in enumerate(times)]
)
loads = st.lists(st.tuples(st.floats(0, 1e5), st.integers(1, 4)), min_size=1, max_size=40).map(
    lambda rows: [load(index=number, expected_s=row[0], cards=row[1]) for number, row in enumerate(rows)]
)
sizes = st.sampled_from([1, 2, 4])


def plan(*shards: Shard) -> Plan:
    return Plan(fingerprint="", bound_s=0, makespan_s=0, binds="", shards=shards)


def shard(index: int, expected_s: float = 1.0, *, empty: bool = False) -> Shard:
    groups = () if empty else (Group(file="a", ids=(str(index),)),)
    return Shard(index=index, expected_s=expected_s, groups=groups)


def test_empty_shards_get_no_leg() -> None:
    found = busy_shards(plan(shard(0), shard(1, empty=True), shard(2)))
    assert [load.index for load in found] == [0, 2]


def test_a_plan_of_nothing_is_refused() -> None:
    with pytest.raises(NothingToRunError, match="the plan holds no test"):
        busy_shards(plan(shard(0, empty=True)))


def test_a_shards_cards_are_those_the_plan_says() -> None:
    wide = Shard(index=0, expected_s=1.0, groups=shard(0).groups, cards=2)
    assert busy_shards(plan(wide)) == [wide]


@given(loads, sizes, st.none() | st.integers(3, 80), st.randoms(use_true_random=False))
def test_every_shard_is_in_exactly_one_leg_that_has_its_cards(
    given_loads: list[Shard], size: int, legs: int | None, shuffler: random.Random
) -> None:
    dealt = deal(given_loads, RUNNERS, cards_per_leg=size, legs=legs)
    assert sorted(index for leg in dealt for index in leg.shards) == [load.index for load in given_loads]
    assert all(leg.shards and list(leg.shards) == sorted(leg.shards) for leg in dealt)
    assert all(leg.cards >= max(size, *(given_loads[one].cards for one in leg.shards), 1) for leg in dealt)
    assert legs is None or len(dealt) <= legs
    assert [leg.expected_s for leg in dealt] == sorted((leg.expected_s for leg in dealt), reverse=True)
    shuffler.shuffle(given_loads)
    assert deal(given_loads, RUNNERS, cards_per_leg=size, legs=legs) == dealt


@given(loads.filter(lambda found: all(load.expected_s > 0 for load in found)), sizes)
def test_without_a_number_of_legs_every_shard_has_cards_of_its_own(
    given_loads: list[Shard], size: int
) -> None:
    dealt = deal(given_loads, RUNNERS, cards_per_leg=size)
    for leg in dealt:
        assert leg.expected_s == max(given_loads[one].expected_s for one in leg.shards)
        assert sum(given_loads[one].cards for one in leg.shards) <= leg.cards


@given(narrow, st.integers(1, 20))
def test_legs_of_one_card_end_within_the_longest_shard_of_each_other(
    given_loads: list[Shard], legs: int
) -> None:
    dealt = deal(given_loads, RUNNERS, cards_per_leg=1, legs=legs)
    ends = [leg.expected_s for leg in dealt]
    longest = max(load.expected_s for load in given_loads)
    assert max(ends) - min(ends) <= longest * (1 + 1e-9)
    # Graham 1969: longest first is within 4/3 of the best, which is no shorter than these two.
    total = sum(load.expected_s for load in given_loads)
    assert max(ends) <= 4 / 3 * max(longest, total / len(dealt)) + longest * (1 + 1e-9)
    assert sum(ends) == pytest.approx(total)


def test_the_longest_shards_are_spread_over_the_legs() -> None:
    given_loads = [load(index=number, expected_s=float(10 - number)) for number in range(8)]
    assert [leg.shards for leg in deal(given_loads, RUNNERS, cards_per_leg=4)] == [(0, 3, 4, 7), (1, 2, 5, 6)]


def test_shards_that_take_no_time_are_spread_as_well() -> None:
    given_loads = [load(index=number, expected_s=0.0) for number in range(4)]
    assert [leg.shards for leg in deal(given_loads, RUNNERS, cards_per_leg=1)] == [(0,), (1,), (2,), (3,)]


def test_a_wide_shard_gets_a_leg_that_has_its_cards() -> None:
    given_loads = [
        load(index=0, expected_s=9.0, cards=3),
        load(index=1, expected_s=1.0),
        load(index=2, expected_s=5.0),
    ]
    assert deal(given_loads, RUNNERS, cards_per_leg=1) == [
        CiJob(shards=(0,), cards=4, expected_s=9.0),
        CiJob(shards=(2,), cards=1, expected_s=5.0),
        CiJob(shards=(1,), cards=1, expected_s=1.0),
    ]


def test_the_fewest_cards_that_do_are_chosen() -> None:
    def of(shards: int, legs: int = 256) -> int:
        loads = [load(index=number, expected_s=1.0) for number in range(shards)]
        return choose_cards(loads, RUNNERS, legs)

    assert [of(shards) for shards in (1, 256, 257, 512, 1024, 2048)] == [1, 1, 2, 2, 4, 4]
    assert of(100, legs=10) == 4


@pytest.mark.parametrize("size", [0, 3, 8, -1])
def test_cards_no_runner_has_are_refused(size: int) -> None:
    with pytest.raises(UsageError, match=f"--cards-per-job is {size}") as caught:
        deal([load(index=0, expected_s=1.0)], RUNNERS, cards_per_leg=size)
    assert "runners have 1, 2, 4 cards; see `matrix.runner_cards`" in str(caught.value)


def test_a_shard_wider_than_any_runner_is_refused() -> None:
    with pytest.raises(UsageError, match="shard 7 needs 8 cards, but no runner has more than 4"):
        deal([load(index=7, expected_s=1.0, cards=8)], RUNNERS, cards_per_leg=1)


def test_fewer_legs_than_sizes_are_refused() -> None:
    given_loads = [load(index=0, expected_s=1.0, cards=4), load(index=1, expected_s=1.0)]
    with pytest.raises(UsageError, match="--jobs is 1, but the shards need jobs of 2 sizes") as caught:
        deal(given_loads, RUNNERS, cards_per_leg=1, legs=1)
    assert "give --jobs 2 or more, or a greater --cards-per-job" in str(caught.value)


Golden = Callable[[str, str], None]
WORDING = Wording(labels=["linux", "spyre_pf_x{cards}"], timeout_factor=3, timeout_extra_minutes=30)
HAND_OVER = replace(WORDING, beyond="indexed-job")
FORMS: dict[str, Callable[[Sequence[CiJob], Wording], Any]] = {
    "github": lambda legs, wording: github_matrix(legs, wording)[0],
    "jenkins": jenkins_branches,
    "indexed-job": indexed_job,
}


def legs_of(shards: int) -> list[CiJob]:
    """Shards as a plan has them: nearly equal, some longer."""
    chance = random.Random(shards)  # noqa: S311  # a fixed plan, no secret
    loads = [load(index=one, expected_s=300.0 + round(chance.expovariate(0.1), 3)) for one in range(shards)]
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
        "512 jobs are more than the 256 of a GitHub matrix: 2 matrices, each for one call of the "
        "reusable workflow"
    )


def test_or_one_leg_on_the_least_runner_hands_over_to_a_cluster_job() -> None:
    least, _ = github_matrix(legs_of(2048), replace(HAND_OVER, fewest_cards=1))
    assert least["include"][0]["runs_on"] == ["linux", "spyre_pf_x1"]
    content, why = github_matrix(legs_of(2048), HAND_OVER)
    (row,) = content["include"]
    assert row["hand_over"] == "indexed-job"
    assert (row["shards"], row["cards"], row["runs_on"]) == ("0-2047", 0, ["linux", "spyre_pf_x0"])
    assert why.endswith("one job submits an Indexed Job")


def test_what_fits_a_matrix_is_never_handed_over() -> None:
    assert github_matrix(legs_of(1024), HAND_OVER) == github_matrix(legs_of(1024), WORDING)


def test_a_matrix_too_long_for_an_output_is_refused() -> None:
    legs = [CiJob(shards=(number,), cards=1, expected_s=1.0) for number in range(4096)]
    with pytest.raises(
        UsageError, match=r"the matrix of 4,096 jobs takes .* of which GitHub allows 1,000,000"
    ):
        github_matrix(legs, WORDING)
    assert github_matrix(legs, HAND_OVER)[0]["include"][0]["shards"] == "0-4095"


def test_an_indexed_job_has_a_pod_for_each_list_of_shards() -> None:
    found = indexed_job(
        [CiJob(shards=(0, 2), cards=2, expected_s=60.0), CiJob(shards=(1,), cards=2, expected_s=5.0)], WORDING
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
    row = jenkins_branches([CiJob(shards=(0,), cards=1, expected_s=seconds)], short)["leg-000"]
    assert row["timeout_minutes"] == (1 if seconds == 0 else MAX_MINUTES)
