"""Two plans are the same work only where all that decides their results is known and equal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.config.model import SettingsModel
from ci.pipeline.identity import (
    FILE,
    PARTS,
    environment_part,
    identity_of,
    planned_part,
    selection_part,
    settings_part,
    write_plan_identity,
)
from test_selection.files import read_json
from test_selection.plan import Group, Plan, Shard, fingerprint
from test_selection.selection import Expectation, Selection

WHOLE = dict.fromkeys(PARTS, "known")


def settings(**content: Any) -> str:
    return settings_part(SettingsModel.model_validate(content))


def test_the_same_parts_have_the_same_identity() -> None:
    assert identity_of(WHOLE) == identity_of(dict(reversed(WHOLE.items())))
    assert len(identity_of(WHOLE)) == 64


@pytest.mark.parametrize("part", PARTS)
def test_another_part_is_another_identity_and_an_unknown_one_none(part: str) -> None:
    assert identity_of(WHOLE | {part: "other"}) not in {"", identity_of(WHOLE)}
    assert identity_of(WHOLE | {part: ""}) == ""
    assert identity_of({key: value for key, value in WHOLE.items() if key != part}) == ""


def test_parts_nobody_knows_make_no_identity() -> None:
    assert identity_of({}) == ""
    assert identity_of(WHOLE | {"more": "x"}) == ""


def dealt(*shards: list[str]) -> Plan:
    made = tuple(
        Shard(index=index, expected_s=1.0, groups=(Group(file="a.py", ids=tuple(ids)),))
        for index, ids in enumerate(shards)
    )
    return Plan(fingerprint=fingerprint(made), bound_s=1, makespan_s=1, binds="cards", shards=made)


IDS = st.lists(st.text(max_size=3), unique=True, max_size=6)


@given(IDS, st.integers(0, 6), st.randoms(use_true_random=False))
def test_the_same_tests_are_the_same_however_they_are_dealt(ids: list[str], cut: int, random: Random) -> None:
    mixed = random.sample(ids, len(ids))
    assert planned_part(dealt(ids)) == planned_part(dealt(mixed[:cut], mixed[cut:]))


@given(IDS, IDS)
def test_other_tests_are_other_work(one: list[str], two: list[str]) -> None:
    assert (planned_part(dealt(one)) == planned_part(dealt(two))) == (set(one) == set(two))


TEXTS = st.dictionaries(st.sampled_from(PARTS), st.text(max_size=3))


@given(TEXTS, TEXTS)
def test_different_parts_never_have_one_identity(one: dict[str, str], two: dict[str, str]) -> None:
    first, second = identity_of(WHOLE | one), identity_of(WHOLE | two)
    assert (WHOLE | one == WHOLE | two) or first != second or first == ""


@pytest.mark.parametrize(
    "content",
    [
        {"device": {"refuse_ops": ["aten.add"]}},
        {"run": {"retries": 0}},
        {"run": {"control": "cpu"}},
        {"run": {"test_timeout_s": 10}},
        {"pytorch": {"suite": "a.yaml"}},
        {"matrix": {"labels": ["linux", "image_2"]}},
    ],
)
def test_settings_that_decide_results_count(content: dict[str, Any]) -> None:
    assert settings(**content) != settings()


@pytest.mark.parametrize(
    "content",
    [
        {"run": {"share": "/shared", "leases": "/leases", "grace_s": 9, "share_password_file": "/secret"}},
        {"report": {"endpoint": "none"}},
        {"pipeline": {"timeouts": {"lint": 5}}},
        {"runs": "elsewhere"},
    ],
)
def test_settings_that_decide_no_result_do_not(content: dict[str, Any]) -> None:
    assert settings(**content) == settings()


def test_what_is_expected_of_tests_counts_and_where_it_is_written_does_not() -> None:
    base = Selection(
        stage=1, percent=5, ids=["a", "b"], expectations={"a": Expectation(mode="xfail", where="f:1")}
    )
    same = replace(base, ids=["b", "a"], expectations={"a": Expectation(mode="xfail", where="f:9")})
    assert selection_part(base) == selection_part(same)
    others = [
        replace(base, ids=["a"]),
        replace(base, expectations={}),
        replace(base, expectations={"a": Expectation(mode="skip")}),
        replace(base, collect_errors={"x.py": "broken"}),
    ]
    assert len({selection_part(one) for one in (base, *others)}) == 5


def test_what_is_installed_and_what_tests_read_of_the_environment_count() -> None:
    base = environment_part({}, ["torch==2.13.0"])
    assert (
        environment_part({"HOME": "/x", "SPYRE_CI__STAGE": "2", "GITHUB_SHA": "a"}, ["torch==2.13.0"]) == base
    )
    for environ in (
        {"PYTORCH_TEST_WITH_SLOW": "1"},
        {"CI": "1"},
        {"SPYRE_CI_CARD_FAULTS": "emulated:0=fail:2"},
    ):
        assert environment_part(environ, ["torch==2.13.0"]) != base
    assert environment_part({}, ["torch==2.13.1"]) != base
    assert environment_part({}) == environment_part({})


def test_parts_are_kept_beside_the_plan(tmp_path: Path) -> None:
    identity = write_plan_identity(tmp_path, WHOLE)
    written = read_json(tmp_path / FILE, "plan-identity")
    assert written["identity"] == identity == identity_of(written["parts"]) != ""
    write_plan_identity(tmp_path, WHOLE | {"image": ""})
    written = read_json(tmp_path / FILE, "plan-identity")
    assert written["identity"] == identity_of(written["parts"]) == ""
