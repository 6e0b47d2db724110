"""What makes two plans the same work, and as many shards as the work is worth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.config.model import SettingsModel
from ci.pipeline.cli_plan import shards_for
from ci.pipeline.plan_identity import environment_part, selection_part, settings_part
from test_selection.selection import Expectation, Selection


@given(st.floats(0, 1e7), st.floats(0.001, 1e6), st.integers(1, 4096))
def test_there_are_shards_enough_and_never_one_too_many(seconds: float, shard_s: float, most: int) -> None:
    found = shards_for(seconds, shard_s=shard_s, most=most)
    assert 1 <= found <= most
    # As many as keep each below `shard_s`, where that many may be, and with one less they would not.
    assert found == most or found >= seconds / shard_s
    assert found == 1 or found - 1 < seconds / shard_s


@pytest.mark.parametrize(
    ("content", "counts"),
    [
        ({"device": {"refuse_ops": ["aten.add"]}}, True),
        ({"run": {"retries": 0}}, True),
        ({"run": {"control": "cpu"}}, True),
        ({"run": {"test_timeout_s": 10}}, True),
        ({"pytorch": {"suite": "a.yaml"}}, True),
        ({"matrix": {"labels": ["linux", "image_2"]}}, True),
        (
            {"run": {"share": "/shared", "leases": "/leases", "grace_s": 9, "share_password_file": "/s"}},
            False,
        ),
        ({"report": {"endpoint": "none"}}, False),
        ({"pipeline": {"timeouts": {"lint": 5}}}, False),
        ({"runs": "elsewhere"}, False),
    ],
)
def test_settings_count_that_decide_results(content: dict[str, Any], counts: bool) -> None:
    default = settings_part(SettingsModel())
    assert (settings_part(SettingsModel.model_validate(content)) != default) == counts


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


def test_what_tests_read_of_the_environment_counts() -> None:
    base = environment_part({})
    assert environment_part({"HOME": "/x", "SPYRE_CI__STAGE": "2", "GITHUB_SHA": "a"}) == base
    for name in ("PYTORCH_TEST_WITH_SLOW", "CI", "SPYRE_CI_CARD_FAULTS"):
        assert environment_part({name: "1"}) != base


def test_what_is_installed_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    base = environment_part({})
    monkeypatch.setattr("ci.runner.collect.installed_packages", lambda: ["torch==2.13.1"])
    assert environment_part({}) != base
