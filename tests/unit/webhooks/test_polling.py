from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import SettingsError, SpyreCiError
from ci.core.github.errors import GitHubAwayError
from ci.webhooks.polling import LONGEST_S, Passed, pause_s, repeat


def passed(*errors: SpyreCiError, retry_s: float = 0, waiting: int = 0) -> Passed:
    return Passed(errors=[("o/r", one) for one in errors], retry_s=retry_s, waiting=waiting)


def test_a_pass_ends_with_the_code_of_what_went_wrong() -> None:
    away, bad = GitHubAwayError("away"), SettingsError("no token")
    assert passed().exit_code == 0
    assert passed(away).exit_code == 3
    assert passed(away, bad).exit_code == 2
    assert passed(waiting=1).exit_code == 3


def test_passes_come_a_little_before_or_after_their_time() -> None:
    assert pause_s(60, passed(), failures=0, chance=0) == pytest.approx(54)
    assert pause_s(60, passed(), failures=0, chance=0.5) == pytest.approx(60)
    assert pause_s(60, passed(), failures=0, chance=0.999) < 66


def test_each_failure_doubles_the_time_up_to_an_hour() -> None:
    waits = [pause_s(60, passed(), failures=number, chance=0.5) for number in range(9)]
    assert waits[:4] == pytest.approx([60, 120, 240, 480])
    assert waits[-1] == LONGEST_S
    assert pause_s(86_400, passed(), failures=9, chance=0.5) == pytest.approx(86_400)


@given(
    st.floats(1, 86_400),
    st.floats(0, 4000),
    st.integers(0, 50),
    st.floats(0, 1, exclude_max=True),
)
def test_nobody_comes_before_a_limit_is_over(
    every_s: float, retry_s: float, failures: int, chance: float
) -> None:
    wait_s = pause_s(every_s, passed(retry_s=retry_s), failures=failures, chance=chance)
    assert wait_s >= retry_s * 0.999_999
    assert wait_s <= 1.2 * max(every_s, retry_s, LONGEST_S)


def test_it_goes_on_until_an_interrupt_and_forgets_failures_that_are_over() -> None:
    results = [passed(GitHubAwayError("x")), passed(GitHubAwayError("x")), passed(), passed()]
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if not results:
            raise KeyboardInterrupt

    told: list[float] = []
    with pytest.raises(KeyboardInterrupt):
        repeat(
            lambda: results.pop(0), every_s=10, sleep=sleep, rng=lambda: 0.5,
            tell=lambda _, wait_s: told.append(wait_s),
        )  # fmt: skip
    assert waits == told == pytest.approx([20, 40, 10, 10])
