"""A plan's outputs: one kind a form of matrix, and as many shards as the work is worth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.cli.matrix import Target, legs_of, worded
from ci.cli.pipeline_plan import kind_of, outputs_of
from ci.config.model import SettingsModel
from ci.core.provider import output_lines
from ci.pipeline.identity import PARTS, unknown
from ci.pipeline.plan import Planned, shards_for
from ci.steps.folder import RunFolder
from test_selection.plan import Group, Plan, Shard, fingerprint

MODEL = SettingsModel.model_validate(
    {"matrix": {"runner_cards": [0, 1]}, "pipeline": {"timeouts": {"plan": 9}}}
)
NAMES = ["matrix", "kind", "legs", "run", "tests", "fingerprint", "identity", "timeouts", "environment"]


def planned(shards: int) -> Planned:
    made = tuple(
        Shard(index=n, expected_s=600.0 - n / 10, groups=(Group(file="a.py", ids=(f"a.py::{n}",)),))
        for n in range(shards)
    )
    plan = Plan(fingerprint=fingerprint(made), bound_s=1.0, makespan_s=1.0, binds="balance", shards=made)
    return Planned(folder=RunFolder(path=Path("runs/ci")), plan=plan, identity="same", parts={})


@pytest.mark.parametrize(
    ("shards", "beyond", "kind"),
    [
        (3, "matrices", "legs"),
        (256, "indexed-job", "legs"),
        (300, "matrices", "matrices"),
        (300, "indexed-job", "hand-over"),
    ],
)
def test_a_plan_for_github_says_what_kind_of_matrix_it_is(shards: int, beyond: str, kind: str) -> None:
    model = MODEL.model_copy(update={"matrix": MODEL.matrix.model_copy(update={"beyond": beyond})})
    work = planned(shards)
    legs = legs_of(work.plan, model.matrix, Target.GITHUB)
    content, _ = worded(legs, model.matrix, Target.GITHUB)
    found = outputs_of(model, work, content, legs=len(legs))
    assert list(found) == NAMES
    assert (found["kind"], found["legs"], found["tests"]) == (kind, shards, shards)
    assert (found["run"], found["identity"], found["timeouts"]["plan"]) == ("ci", "same", 9)
    # On one line each, so that no delimiter is needed.
    assert len(output_lines(found).splitlines()) == len(NAMES)


def test_a_plan_for_jenkins_is_made_of_branches() -> None:
    work = planned(300)
    legs = legs_of(work.plan, MODEL.matrix, Target.JENKINS)
    content, _ = worded(legs, MODEL.matrix, Target.JENKINS)
    found = outputs_of(MODEL, work, content, legs=len(legs))
    assert (found["kind"], found["legs"]) == ("legs", 300)
    assert found["matrix"]["leg-000"]["label"] == "linux && x86_64 && spyre_pf_x1"


def test_nothing_to_run_is_an_empty_matrix_and_no_tests() -> None:
    found = outputs_of(MODEL)
    assert list(found) == NAMES
    assert json.loads(json.dumps(found["matrix"])) == {"include": []}
    assert [found[name] for name in NAMES[1:-2]] == ["none", 0, "", 0, "", ""]


def test_legs_run_in_the_image_that_their_runner_is_unless_settings_say_otherwise() -> None:
    assert outputs_of(SettingsModel())["environment"] == "image"
    own = SettingsModel.model_validate({"pipeline": {"environment": "own"}})
    assert outputs_of(own)["environment"] == "own"


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


def test_what_is_not_known_of_a_plan_is_named() -> None:
    assert unknown(dict.fromkeys(PARTS, "x")) == ""
    assert unknown({**dict.fromkeys(PARTS, "x"), "image": "", "tree": ""}) == "tree, image"
