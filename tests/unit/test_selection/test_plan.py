"""The plan comes back as it was written, and one that is not whole is refused."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from test_selection.errors import BadFileError, MissingInputError
from test_selection.plan import Group, Plan, Shard, fingerprint, read_plan, write_plan

SHARDS = (
    Shard(
        index=0,
        expected_s=3.5,
        groups=(Group(file="a.py", ids=("a.py::1", "a.py::2")), Group(file="b.py", ids=("b.py::1",))),
    ),
    Shard(index=1, expected_s=0.0, groups=()),
)
PLAN = Plan(fingerprint=fingerprint(SHARDS), bound_s=2.0, makespan_s=3.5, binds="balance", shards=SHARDS)


def test_a_plan_comes_back(tmp_path: Path) -> None:
    write_plan(tmp_path / "p.json", PLAN)
    assert read_plan(tmp_path / "p.json") == PLAN


def test_what_limits_add_to_a_plan_comes_back_and_is_left_out_where_it_is_usual(tmp_path: Path) -> None:
    first, second = SHARDS
    alone = Group(file="c.py", ids=("c.py::1",), alone=True, timeout_s=30.0)
    chained = Group(file="d.py", ids=("d.py::1", "d.py::2", "d.py::0"), chains=((1, 2),))
    shards = (replace(first, groups=(*first.groups, alone, chained), cards=2, speed=0.5), second)
    limited = replace(PLAN, fingerprint=fingerprint(shards), shards=shards)
    write_plan(tmp_path / "p.json", limited)
    assert read_plan(tmp_path / "p.json") == limited
    rows = json.loads((tmp_path / "p.json").read_text())["shards"]
    assert (rows[0]["cards"], rows[0]["speed"]) == (2, 0.5)
    assert rows[0]["groups"][2] == {"file": "c.py", "alone": True, "timeout_s": 30.0, "ids": ["c.py::1"]}
    assert rows[0]["groups"][3] == {"file": "d.py", "chains": [[1, 2]], "ids": list(chained.ids)}
    assert set(rows[1]) == {"index", "expected_s", "groups"}
    assert set(rows[0]["groups"][0]) == {"file", "ids"}


@pytest.mark.parametrize(
    "more", [{"cards": 0}, {"cards": 1.5}, {"speed": -1}, {"speed": "1"}, {"cards": True}]
)
def test_cards_and_speeds_of_the_wrong_kind_are_refused(tmp_path: Path, more: dict[str, Any]) -> None:
    with pytest.raises(BadFileError, match="missing or of the wrong kind"):
        read_plan(changed(tmp_path, shards=[{**shard_row(0, "x"), **more}]))


@pytest.mark.parametrize("more", [{"alone": 1}, {"timeout_s": 0}, {"timeout_s": "9"}])
def test_groups_with_values_of_the_wrong_kind_are_refused(tmp_path: Path, more: dict[str, Any]) -> None:
    row = {"index": 0, "expected_s": 1, "groups": [{"file": "a", "ids": ["x"], **more}]}
    with pytest.raises(BadFileError, match="missing or of the wrong kind"):
        read_plan(changed(tmp_path, shards=[row]))


def test_ids_come_shard_after_shard_and_group_after_group() -> None:
    assert PLAN.ids == ["a.py::1", "a.py::2", "b.py::1"]
    assert PLAN.shards[1].ids == []


def test_seconds_are_kept_to_the_millisecond(tmp_path: Path) -> None:
    write_plan(tmp_path / "p.json", replace(PLAN, bound_s=1.23456))
    assert read_plan(tmp_path / "p.json").bound_s == 1.235


def test_a_fingerprint_is_of_the_work_and_not_of_its_times() -> None:
    first, second = SHARDS
    assert fingerprint((replace(first, expected_s=9.0), second)) == PLAN.fingerprint
    assert fingerprint((second, first)) != PLAN.fingerprint
    moved = (
        replace(first, groups=first.groups[:1]),
        replace(second, groups=first.groups[1:]),
    )
    assert fingerprint(moved) != PLAN.fingerprint


def changed(tmp_path: Path, **content: Any) -> Path:
    path = tmp_path / "p.json"
    write_plan(path, PLAN)
    rows = {**json.loads(path.read_text()), **content}
    path.write_text(json.dumps({key: value for key, value in rows.items() if value is not ...}, default=str))
    return path


@pytest.mark.parametrize("key", ["fingerprint", "bound_s", "makespan_s", "binds", "shards"])
def test_a_missing_key_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(BadFileError, match=f"a key is missing or of the wrong kind: .*`{key}`") as caught:
        read_plan(changed(tmp_path, **{key: ...}))
    assert "spyre-ci plan" in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        {"bound_s": "x"},
        {"makespan_s": None},
        {"shards": 3},
        {"shards": [{}]},
        {"shards": [{"index": 0, "expected_s": 1, "groups": [{"file": "a"}]}]},
        {"shards": [{"index": "x", "expected_s": 1, "groups": []}]},
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(tmp_path: Path, content: dict[str, Any]) -> None:
    with pytest.raises(BadFileError, match="a key is missing or of the wrong kind"):
        read_plan(changed(tmp_path, **content))


def shard_row(index: int, *ids: str) -> dict[str, Any]:
    return {"index": index, "expected_s": 1, "groups": [{"file": "a", "ids": list(ids)}]}


def test_an_id_planned_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="the test 'y' is planned twice") as caught:
        read_plan(changed(tmp_path, shards=[shard_row(0, "x", "y"), shard_row(1, "y")]))
    assert "edited or truncated" in str(caught.value)


@pytest.mark.parametrize("indices", [[1, 0], [0, 2], [0, 0]])
def test_shards_that_do_not_count_up_are_refused(tmp_path: Path, indices: list[int]) -> None:
    rows = [shard_row(index, f"id{number}") for number, index in enumerate(indices)]
    with pytest.raises(BadFileError, match="shard indices do not count up from 0"):
        read_plan(changed(tmp_path, shards=rows))


def test_a_missing_plan_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="there is no plan file"):
        read_plan(tmp_path / "none.json")


@pytest.mark.parametrize("shards", [["x"], [{"index": 1e999, "expected_s": 0, "groups": []}], 7, {"a": 1}])
def test_shards_of_the_wrong_kind_are_a_bad_file(tmp_path: Path, shards: Any) -> None:
    with pytest.raises(BadFileError, match="missing or of the wrong kind"):
        read_plan(changed(tmp_path, shards=shards))


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), True, "7", 1e300, 10**400])
@pytest.mark.parametrize("key", ["bound_s", "makespan_s", "expected_s"])
def test_seconds_that_are_none_are_refused(tmp_path: Path, key: str, value: Any) -> None:
    content = {"shards": [{**shard_row(0, "x"), key: value}]} if key == "expected_s" else {key: value}
    with pytest.raises(BadFileError, match=rf"of the wrong kind: .* at `\$.*{key}`"):
        read_plan(changed(tmp_path, **content))


def test_seconds_greater_than_any_measured_come_back(tmp_path: Path) -> None:
    write_plan(tmp_path / "p.json", replace(PLAN, makespan_s=5e9))
    assert read_plan(tmp_path / "p.json").makespan_s == 5e9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"file": 5}, "Expected `str`, got `int` - at `$.shards[0].groups[0].file`"),
        ({"file": None}, "Expected `str`, got `null` - at `$.shards[0].groups[0].file`"),
        ({"ids": "abc"}, "Expected `array`, got `str` - at `$.shards[0].groups[0].ids`"),
        ({"ids": [1]}, "Expected `str`, got `int` - at `$.shards[0].groups[0].ids[0]`"),
        ({"ids": [{}]}, "Expected `str`, got `object` - at `$.shards[0].groups[0].ids[0]`"),
        ({"chains": {}}, "Expected `array`, got `object` - at `$.shards[0].groups[0].chains`"),
        (
            {"chains": [[0, 2]]},
            "chains of 'a' holds [0, 2], not the first place, from 0 on",
        ),
        ({"chains": [[0, 1]]}, "chains of 'a' holds [0, 1]"),
        ({"chains": [[-1, 2]]}, "chains of 'a' holds [-1, 2]"),
        ({"chains": [[0, 2], [1, 2]], "ids": ["x", "y", "z"]}, "chains of 'a' holds [1, 2]"),
        ({"chains": ["ab"]}, "got `str` - at `$.shards[0].groups[0].chains[0]`"),
        ({"timeout_s": 0}, "Expected `float` > 0.0 - at `$.shards[0].groups[0].timeout_s` (seen: 0)"),
        ({"timeout_s": math.nan}, "at `$.shards[0].groups[0].timeout_s` (seen: nan)"),
    ],
)
def test_a_group_of_the_wrong_kind_is_told_with_its_place(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    row = {"index": 0, "expected_s": 1, "groups": [{"file": "a", "ids": ["x"], **change}]}
    with pytest.raises(BadFileError, match=re.escape(message)):
        read_plan(changed(tmp_path, shards=[row]))


@pytest.mark.parametrize("content", [{"fingerprint": 5}, {"binds": None}, {"shards": {}}])
def test_plans_of_the_wrong_kind_are_refused(tmp_path: Path, content: dict[str, Any]) -> None:
    with pytest.raises(BadFileError, match="missing or of the wrong kind"):
        read_plan(changed(tmp_path, **content))


def test_a_plan_whose_tests_were_moved_by_hand_is_refused(tmp_path: Path) -> None:
    rows = [shard_row(0, "y"), shard_row(1, "x")]
    with pytest.raises(BadFileError, match="does not match the groups") as caught:
        read_plan(changed(tmp_path, shards=rows))
    assert "plan again with `spyre-ci plan`" in str(caught.value)


@pytest.mark.parametrize("index", [0.5, True, "0"])
def test_an_index_that_is_no_whole_number_is_refused(tmp_path: Path, index: object) -> None:
    with pytest.raises(BadFileError, match=r"Expected `int`.* at `\$\.shards\[0\]\.index`"):
        read_plan(changed(tmp_path, shards=[{**shard_row(0, "x"), "index": index}]))
