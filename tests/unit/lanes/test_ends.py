from __future__ import annotations

import pytest

from ci.lanes.ends import ended, of_code, settled
from ci.lanes.order import Standing


@pytest.mark.parametrize(
    ("codes", "standing", "code"),
    [
        ([0, 0], Standing.PASSED, 0),
        ([0, 1], Standing.FAILED, 1),
        ([1, 3], Standing.INCOMPLETE, 3),
        ([2, 3], Standing.INCOMPLETE, 2),
        ([77], Standing.INCOMPLETE, 3),
        ([130], Standing.INCOMPLETE, 3),
        ([], Standing.PASSED, 0),
    ],
)
def test_results_say_how_a_green_run_ended(codes: list[int], standing: Standing, code: int) -> None:
    seen = settled(ended(Standing.PASSED), codes, wants_results=True)
    assert (seen.standing, seen.exit_code) == (standing, code)


@pytest.mark.parametrize(
    ("codes", "wants", "standing", "code"),
    [
        ([0], True, Standing.FAILED, 1),  # something else of it failed
        ([3], True, Standing.INCOMPLETE, 3),
        ([1], False, Standing.FAILED, 1),
        ([], False, Standing.FAILED, 1),
        ([], True, Standing.INCOMPLETE, 3),
    ],
)
def test_a_red_run_is_never_green(codes: list[int], *, wants: bool, standing: Standing, code: int) -> None:
    seen = settled(ended(Standing.FAILED, "it failed"), codes, wants_results=wants)
    assert (seen.standing, seen.exit_code) == (standing, code)
    assert seen.said.startswith("it failed")


@pytest.mark.parametrize(
    "standing", [Standing.CANCELLED, Standing.TIMED_OUT, Standing.GONE, Standing.INCOMPLETE]
)
def test_what_did_not_come_to_its_end_stays_so_whatever_it_reported(standing: Standing) -> None:
    seen = ended(standing, "why")
    assert settled(seen, [0], wants_results=True) == seen


@pytest.mark.parametrize(
    ("code", "standing"), [(0, "passed"), (1, "failed"), (2, "incomplete"), (9, "incomplete")]
)
def test_an_exit_code_is_a_standing(code: int, standing: str) -> None:
    assert of_code(code).standing == standing
    assert of_code(9).exit_code == 3
