from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import BadFileError
from ci.runner.health import Health, HealthFiles, Rules, Strike, current, strike, struck

RULES = Rules(strikes=3, bench_s=100)


def after(*moments: float, rules: Rules = RULES) -> Health:
    health = Health()
    for moment in moments:
        health = struck(health, strike(moment, f"fault at {moment}", "r"), rules)
    return health


def test_so_many_strikes_bench_a_card_until_the_bench_is_over() -> None:
    assert after(1, 2).benched_until is None
    health = after(1, 2, 3)
    assert health.benched_until == 103
    assert current(health, 102.9, RULES) == health
    assert current(health, 103, RULES) == Health()
    assert "fault at 3" in str(health)


def test_a_strike_counts_as_long_as_a_bench_lasts() -> None:
    assert len(after(1, 2, 102).strikes) == 1
    assert after(1, 2, 102).benched_until is None


def test_a_clock_that_was_set_back_does_not_keep_strikes_for_ever() -> None:
    assert current(after(1_000), 500, RULES) == Health()


@given(st.lists(st.floats(0, 1_000), max_size=30), st.integers(1, 5), st.floats(1, 1_000))
def test_a_card_is_benched_exactly_when_enough_strikes_count(
    moments: list[float], most: int, bench_s: float
) -> None:
    rules = Rules(strikes=most, bench_s=bench_s)
    health = Health()
    for moment in sorted(moments):
        if current(health, moment, rules).benched_until is not None:
            continue
        health = struck(health, strike(moment, "x", "r"), rules)
        assert (health.benched_until is not None) == (len(health.strikes) >= most)


def test_what_is_kept_is_what_is_read(tmp_path: Path) -> None:
    files = HealthFiles(folder=tmp_path, rules=RULES)
    assert files.read("emulated:0", 0) == Health()
    for health in (after(1), after(1, 2, 3)):
        files.write("emulated:0", health)
        assert files.read("emulated:0", 3) == health
    assert files.read("emulated:0", 1_000) == Health()
    assert files.read("emulated:1", 3) == Health()


def test_a_reason_is_cut_to_what_a_file_should_hold() -> None:
    assert strike(1, "many\n lines " + "x" * 10_000, "r").reason.startswith("many lines xxx")
    assert len(strike(1, "x" * 10_000, "r").reason) == 500


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"schema": "spyre-ci/plan/1"}',
        '{"schema": "spyre-ci/card-health/1"}',
        '{"schema": "spyre-ci/card-health/1", "strikes": 3, "benched_until": null}',
        '{"schema": "spyre-ci/card-health/1", "strikes": [], "benched_until": "soon"}',
        '{"schema": "spyre-ci/card-health/1", "strikes": [], "benched_until": true}',
        '{"schema": "spyre-ci/card-health/1", "strikes": [], "benched_until": 1e300}',
        '{"schema": "spyre-ci/card-health/1", "strikes": [{"at": -1}], "benched_until": null}',
        '{"schema": "spyre-ci/card-health/1", "strikes": [{"at": 1}], "benched_until": null}',
    ],
)
def test_a_file_that_is_none_of_ours_is_told_with_its_remedy(tmp_path: Path, content: str) -> None:
    files = HealthFiles(folder=tmp_path, rules=RULES)
    files.path("emulated:0").write_text(content)
    with pytest.raises(BadFileError, match="delete it") as caught:
        files.read("emulated:0", 0)
    assert caught.value.where == str(files.path("emulated:0"))


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    files = HealthFiles(folder=tmp_path)
    os.mkfifo(files.path("a"))
    with pytest.raises(BadFileError, match="not a regular file"):
        files.read("a", 0)


def test_what_a_card_did_last_is_why_it_sits_on_the_bench() -> None:
    assert Health(strikes=(Strike(at=1, reason="hung", run="r"),), benched_until=5).reason == "hung"
    assert Health(benched_until=5).reason == "no reason was noted"
