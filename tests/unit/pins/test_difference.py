"""Two releases beside each other, and which two are meant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ci.core.errors import MissingInputError, UsageError
from ci.pins.difference import as_json, between, lines, pair
from ci.pins.record import Parameter, Record

DAY = datetime(2026, 3, 1, tzinfo=UTC)
X = Parameter(name="x", kind="positional or keyword")


def record(version: str, sha: str = "a", **more: Any) -> Record:
    about: dict[str, Any] = {
        "track": "image", "version": version, "sha": sha * 64, "source": "here", "recorded_at": DAY,
        "packages": {"torch": "2.12.0", "numpy": "2.1.0", "old": "1"}, "direct": {"torch": "2.12.0"},
    }  # fmt: skip
    return Record.model_validate({**about, **more})


BEFORE = record("1.0", origins={"numpy": "file:///a"}, signatures={"m:f": (X,), "m:g": (X,), "m:h": (X,)})
AFTER = record(
    "1.1", "b",
    packages={"torch": "2.13.0", "numpy": "2.1.0", "new": "1"}, direct={"torch": "2.13.0"},
    signatures={"m:f": None, "m:g": (X,)},
)  # fmt: skip


def test_people_read_what_is_otherwise() -> None:
    assert lines(between(BEFORE, AFTER)) == [
        "image 1.0 (aaaaaaaaaaaa) -> 1.1 (bbbbbbbbbbbb)",
        "direct:",
        "  torch 2.12.0 -> 2.13.0",
        "packages:",
        "  new 1 is new",
        "  old 1 is gone",
        "origins:",
        "  numpy file:///a is gone",
        "entry points:",
        "  m:f(x) -> (gone)",
        "    is gone (breaks callers)",
    ]


def test_machines_read_the_same() -> None:
    found = as_json(between(BEFORE, AFTER))
    assert found["before"] == {"version": "1.0", "sha": "a" * 64}
    assert found["direct"] == [{"name": "torch", "before": "2.12.0", "after": "2.13.0"}]
    assert found["entry_points"] == {"m:f": [{"text": "is gone", "breaks": True}]}


def test_nothing_otherwise_is_said() -> None:
    assert lines(between(BEFORE, BEFORE))[1:] == ["the same bytes"]
    assert lines(between(BEFORE, record("1.2", "c", origins=BEFORE.origins)))[1:] == ["nothing is otherwise"]


def test_the_newest_and_the_one_before_it_are_compared_unless_others_are_named() -> None:
    moved = record("1.1", "c", released_at=DAY + timedelta(days=1))
    records = [BEFORE, AFTER, moved]
    assert pair(records, None, None, track="image") == (AFTER, moved)
    assert pair(records, "1.0", None, track="image") == (BEFORE, moved)
    assert pair(records, "1.0", "1.1@bbb", track="image") == (BEFORE, AFTER)
    assert pair(records, "1.0", "1.1", track="image") == (BEFORE, moved)


def test_what_is_not_recorded_is_said_with_what_is() -> None:
    with pytest.raises(MissingInputError, match="image has no recorded release '9'") as caught:
        pair([BEFORE, AFTER], "9", None, track="image")
    assert caught.value.remedy == "the last ones are 1.0, 1.1"
    with pytest.raises(MissingInputError, match="image has no recorded release"):
        pair([], None, None, track="image")
    with pytest.raises(MissingInputError, match="image has no recorded release"):
        pair([], "1.0", None, track="image")


def test_one_release_has_nothing_to_be_compared_with() -> None:
    with pytest.raises(UsageError, match=r"image has no release before 1.0"):
        pair([BEFORE], None, None, track="image")
