"""A plan's outputs: one kind a form of matrix, and as many shards as the work is worth."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.config.model import SettingsModel
from ci.core.provider import output_lines
from ci.main_job.cli_matrix import Target, legs_of
from ci.pipeline.cli_plan import kind_of, outputs_of, outputs_of_plan
from ci.pipeline.plan import (
    environment_part,
    planned_part,
    selection_part,
    settings_part,
    shards_for,
)
from test_selection.plan import Group, Plan, Shard, fingerprint
from test_selection.selection import Expectation, Selection

MODEL = SettingsModel.model_validate(
    {"matrix": {"runner_cards": [0, 1]}, "pipeline": {"timeouts": {"plan": 9}}}
)
NAMES = ["matrix", "kind", "legs", "run", "tests", "fingerprint", "timeouts", "environment"]


def plan_of(shards: int) -> Plan:
    made = tuple(
        Shard(index=n, expected_s=600.0 - n / 10, groups=(Group(file="a.py", ids=(f"a.py::{n}",)),))
        for n in range(shards)
    )
    return Plan(fingerprint=fingerprint(made), bound_s=1.0, makespan_s=1.0, binds="balance", shards=made)


@pytest.mark.parametrize(
    ("shards", "beyond", "target", "kind"),
    [
        (3, "matrices", Target.GITHUB, "legs"),
        (256, "indexed-job", Target.GITHUB, "legs"),
        (300, "matrices", Target.GITHUB, "matrices"),
        (300, "indexed-job", Target.GITHUB, "hand-over"),
        (300, "matrices", Target.JENKINS, "legs"),
    ],
)
def test_a_plan_says_what_kind_of_matrix_it_is(shards: int, beyond: str, target: Target, kind: str) -> None:
    model = MODEL.model_copy(update={"matrix": MODEL.matrix.model_copy(update={"beyond": beyond})})
    plan = plan_of(shards)
    dealt = legs_of(plan, model.matrix, target)
    found = outputs_of_plan(model, plan, dealt, target, "ci")
    assert list(found) == NAMES
    assert (found["kind"], found["legs"], found["tests"]) == (kind, shards, shards)
    assert (found["run"], found["timeouts"]["plan"]) == ("ci", 9)
    # On one line each, so that no delimiter is needed.
    assert len(output_lines(found, delimiter="x").splitlines()) == len(NAMES)
    if target is Target.JENKINS:
        assert found["matrix"]["leg-000"]["label"] == "linux && x86_64 && spyre_pf_x1"


def test_nothing_to_run_is_an_empty_matrix_and_no_tests() -> None:
    found = outputs_of(MODEL, Target.GITHUB)
    assert list(found) == NAMES
    assert (found["matrix"], outputs_of(MODEL, Target.JENKINS)["matrix"]) == ({"include": []}, {})
    assert [found[name] for name in NAMES[1:-2]] == ["none", 0, "", 0, ""]
    assert found["environment"] == "image"
    own = SettingsModel.model_validate({"pipeline": {"environment": "own"}})
    assert outputs_of(own, Target.GITHUB)["environment"] == "own"


def test_a_matrix_of_branches_holds_legs() -> None:
    assert kind_of({"leg-000": {"shards": "0"}}) == "legs"


@pytest.mark.parametrize(
    ("seconds", "most", "shards"),
    [(0.0, 128, 1), (599.0, 128, 1), (600.0, 128, 1), (601.0, 128, 2), (1e9, 128, 128), (6000.0, 1, 1)],
)
def test_a_shard_is_worth_beginning_a_job_for(seconds: float, most: int, shards: int) -> None:
    assert shards_for(seconds, shard_s=600, most=most) == shards


@given(st.floats(0, 1e7), st.floats(0.001, 1e6), st.integers(1, 4096))
def test_there_are_shards_enough_and_never_one_too_many(seconds: float, shard_s: float, most: int) -> None:
    found = shards_for(seconds, shard_s=shard_s, most=most)
    assert 1 <= found <= most
    # As many as keep each below `shard_s`, where that many may be, and with one less they would not.
    assert found == most or found >= seconds / shard_s
    assert found == 1 or found - 1 < seconds / shard_s


def settings(**content: Any) -> str:
    return settings_part(SettingsModel.model_validate(content))


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
