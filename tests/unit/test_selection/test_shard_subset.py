"""Ranges are short, come back as they were, and nothing else is taken for one."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.errors import BadFileError, UsageError
from test_selection.files import write_json
from test_selection.plan import KIND, Group, Plan, Shard, fingerprint, read_plan
from test_selection.shard_subset import format_ranges, merged, parse_ranges, slice_of


@given(st.sets(st.integers(0, 5000)))
def test_ranges_come_back(indices: set[int]) -> None:
    text = format_ranges(indices)
    assert (parse_ranges([text], 5001) if text else []) == sorted(indices)


def test_neighbours_become_a_range() -> None:
    assert format_ranges([12, 3, 2, 1, 0, 5, 6, 3]) == "0-3,5-6,12"
    assert format_ranges([]) == ""


def test_each_shard_counts_once_in_the_order_of_naming() -> None:
    assert parse_ranges(["7", " 2 - 3 ".replace(" - ", "-"), "0-2"], 8) == [7, 2, 3, 0, 1]


@pytest.mark.parametrize(
    "text", ["", "x", "1,", "3-1", "-1", "1-", "1_0", "+1", "1-2-3", "1 2", "٣", "1" * 10]
)
def test_what_names_no_shards_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="names no shards") as caught:
        parse_ranges([text], 100)
    assert "give numbers and ranges such as 0-7,12" in str(caught.value)


@pytest.mark.parametrize("text", ["4", "0-4", "0-999999999"])
def test_a_shard_that_is_not_there_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=f"there is no shard {text.rpartition('-')[2]}") as caught:
        parse_ranges([text], 4)
    assert "the plan's shards are 0 to 3" in str(caught.value)


def plan_of(sizes: list[list[int]], cards: int = 1) -> Plan:
    """A plan whose shards hold groups of so many tests."""
    numbers = iter(range(10_000))
    shards = tuple(
        Shard(
            index=index,
            expected_s=float(sum(groups)),
            cards=cards,
            groups=tuple(
                Group(
                    file=f"test_{at}.py",
                    ids=tuple(f"test_{at}.py::T::t{next(numbers)}" for _ in range(count)),
                    chains=((0, 2),) if count > 1 else (),
                )
                for at, count in enumerate(groups)
            ),
        )
        for index, groups in enumerate(sizes)
    )
    return Plan(fingerprint=fingerprint(shards), bound_s=1.25, makespan_s=2.5, binds="balance", shards=shards)


PLAN = plan_of([[3, 1], [2], [], [4]])


def through_json(content: dict[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(json.dumps(content))
    return read


@given(
    sizes=st.lists(st.lists(st.integers(1, 4), max_size=3), min_size=1, max_size=12),
    dealt=st.lists(st.integers(0, 5), min_size=12, max_size=12),
    order=st.randoms(use_true_random=False),
)
def test_any_dealing_of_any_plan_merges_to_the_plan(
    sizes: list[list[int]], dealt: list[int], order: Any
) -> None:
    plan = plan_of(sizes)
    legs = [
        [shard.index for shard in plan.shards if dealt[shard.index] == leg and shard.groups]
        for leg in range(6)
    ]
    slices = [(through_json(slice_of(plan, leg)), f"slice {at}") for at, leg in enumerate(legs)]
    order.shuffle(slices)
    assert merged(slices) == plan_of(sizes)


def test_a_slice_is_read_as_the_plan_with_other_shards_empty(tmp_path: Path) -> None:
    write_json(tmp_path / "plan.json", KIND, slice_of(PLAN, [3, 1]))
    read = read_plan(tmp_path / "plan.json")
    assert read.fingerprint == PLAN.fingerprint
    assert [shard.index for shard in read.shards] == [0, 1, 2, 3]
    assert (read.shards[1], read.shards[3]) == (PLAN.shards[1], PLAN.shards[3])
    assert (read.shards[0].groups, read.shards[2].groups) == ((), ())


def test_a_slice_does_not_grow_with_the_other_shards() -> None:
    few, many = plan_of([[2]] * 10), plan_of([[2]] * 2048)
    assert abs(len(json.dumps(slice_of(few, [7]))) - len(json.dumps(slice_of(many, [7])))) < 5


def changed(where: str, value: Any) -> dict[str, Any]:
    content = through_json(slice_of(PLAN, [0, 3]))
    at: Any = content
    *way, last = where.split(".")
    for step in way:
        at = at[int(step)] if step.isdecimal() else at[step]
    at[int(last) if last.isdecimal() else last] = value
    return content


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("shards.0.groups.0.ids.0", "test_0.py::T::other"), ("shards.0.index", 1), ("shards.0.cards", 2),
        ("shards.0.expected_s", 9.0), ("shards.0.groups.0.file", "x.py"), ("slice.of", 5),
        ("fingerprint", "0" * 64), ("bound_s", 7.0), ("binds", "tests"), ("slice.digest", "0" * 64),
        ("shards", []),
    ],
)  # fmt: skip
def test_a_changed_slice_is_refused(tmp_path: Path, where: str, value: Any) -> None:
    content = changed(where, value)
    write_json(tmp_path / "plan.json", KIND, content)
    with pytest.raises(BadFileError, match=r"the slice's digest .* is of other shards than these"):
        read_plan(tmp_path / "plan.json")
    with pytest.raises(BadFileError, match="the slice's digest"):
        merged([(content, "a slice")])


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        ("slice", 4, "at `$.slice`"), ("slice.of", 0, "at `$.slice.of`"),
        ("slice.of", True, "at `$.slice.of`"), ("slice.of", 1 << 40, "at `$.slice.of`"),
        ("slice", {}, "`of`"), ("slice.digest", 3, "at `$.slice.digest`"),
    ],
)  # fmt: skip
def test_a_slice_that_is_none_is_refused(tmp_path: Path, where: str, value: Any, said: str) -> None:
    write_json(tmp_path / "plan.json", KIND, changed(where, value))
    with pytest.raises(BadFileError, match="missing or of the wrong kind: ") as caught:
        read_plan(tmp_path / "plan.json")
    assert said in str(caught.value)


def test_slices_of_two_plans_are_not_one() -> None:
    other = plan_of([[1], [1], [1], [1]])
    with pytest.raises(BadFileError, match=r"b.* is a slice of another plan than a"):
        merged([(slice_of(PLAN, [0]), "a"), (slice_of(other, [1]), "b")])


def test_a_shard_in_two_slices_is_told_of() -> None:
    with pytest.raises(BadFileError, match="its shard 1 is in another slice as well"):
        merged([(slice_of(PLAN, [0, 1]), "a"), (slice_of(PLAN, [1, 3]), "b")])


def test_a_slice_that_is_missing_is_noticed_by_the_fingerprint() -> None:
    slices = [(through_json(slice_of(PLAN, [index])), str(index)) for index in (0, 1)]
    with pytest.raises(BadFileError, match=r"the fingerprint .* is of other groups"):
        merged(copy.deepcopy(slices))
