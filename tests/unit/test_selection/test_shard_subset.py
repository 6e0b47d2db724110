"""Ranges are short, come back as they were, and nothing else is taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from test_selection.errors import UsageError
from test_selection.shard_subset import format_ranges, parse_ranges


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
    with pytest.raises(UsageError, match="is not a list of shards") as caught:
        parse_ranges([text], 100)
    assert "give numbers and ranges such as 0-7,12" in str(caught.value)


@pytest.mark.parametrize("text", ["4", "0-4", "0-999999999"])
def test_a_shard_that_is_not_there_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=f"there is no shard {text.rpartition('-')[2]}") as caught:
        parse_ranges([text], 4)
    assert "the plan's shards are 0 to 3" in str(caught.value)
