from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.report.control import control_plan
from ci.runner.resume import what_is_left
from test_selection.errors import BadFileError
from test_selection.pack import make_plan
from test_selection.plan import Plan, plan_to_json, read_plan, write_plan
from test_selection.seeds import MOST, seed_of_fingerprint, seed_of_test

SEEDS = st.integers(0, MOST)


def plan() -> Plan:
    return make_plan([], test_s={}, file_s={}, shards=2)


@given(SEEDS, st.text(), st.integers(1, 100))
def test_a_seed_is_what_every_generator_takes(run: int, name: str, attempt: int) -> None:
    assert 0 <= seed_of_test(run, name, attempt) <= MOST == 2**32 - 1


def test_the_same_three_give_the_same_seed_for_ever() -> None:
    # Whoever brings back a run of an earlier version draws as it did.
    assert seed_of_test(7, "a.py::T::x[dtype=float32]", 1) == 1847390482
    assert seed_of_fingerprint("ab") == 2595572655


def test_run_test_and_try_each_make_another_seed() -> None:
    seeds = {seed_of_test(run, name, attempt) for run in (1, 2) for name in "ab" for attempt in (1, 2)}
    assert len(seeds) == 8


@given(SEEDS)
def test_a_plan_keeps_its_seed(seed: int) -> None:
    assert plan_to_json(replace(plan(), seed=seed))["seed"] == seed


def test_a_plan_without_a_seed_has_one_all_the_same(tmp_path: Path) -> None:
    write_plan(tmp_path / "plan.json", plan())
    found = read_plan(tmp_path / "plan.json")
    assert (found.seed, found.run_seed) == (None, seed_of_fingerprint(plan().fingerprint))
    assert replace(found, seed=0).run_seed == 0


@pytest.mark.parametrize("seed", [-1, 1.5, "7", True, MOST + 1])
def test_what_is_no_seed_is_no_plan(tmp_path: Path, seed: object) -> None:
    write_plan(tmp_path / "plan.json", plan())
    content = json.loads((tmp_path / "plan.json").read_text())
    (tmp_path / "plan.json").write_text(json.dumps({**content, "seed": seed}))
    with pytest.raises(BadFileError, match=r"Expected `int.* at `\$\.seed`"):
        read_plan(tmp_path / "plan.json")


def test_what_is_left_of_a_run_and_what_its_control_runs_have_its_seed() -> None:
    whole = replace(plan(), seed=5)
    assert what_is_left(whole, set()).run_seed == control_plan(whole, set(), {0}).run_seed == 5
