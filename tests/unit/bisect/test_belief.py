"""What is believed is Bayes' rule: held to the same rule written out plainly, and to what must hold of it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.bisect.belief import APART, BAD_RATES, END_DOUBT, FAIL, GOOD_RATES, PASS, Belief, Tally

tallies = st.builds(Tally, passed=st.integers(0, 6), failed=st.integers(0, 6))


@st.composite
def beliefs(draw: st.DrawFn) -> Belief:
    last = draw(st.integers(1, 12))
    seen = draw(st.dictionaries(st.integers(0, last), tallies, max_size=6))
    return Belief(last=last, tallies=seen, known_good=draw(st.integers(-1, last - 1)))


def plainly(belief: Belief) -> list[float]:
    """Hypothesis by hypothesis, rate by rate, commit by commit."""
    masses = []
    for first in range(belief.last + 2):
        prior = END_DOUBT if first in (0, belief.last + 1) else (1 - 2 * END_DOUBT) / belief.last
        total = 0.0
        for p, weight_p in BAD_RATES.items():
            for q, weight_q in GOOD_RATES.items():
                if p > APART * q:
                    chance = weight_p * weight_q
                    for position, seen in belief.tallies.items():
                        rate = p if position >= first else q
                        chance *= rate**seen.failed * (1 - rate) ** seen.passed
                    total += chance
        masses.append(0.0 if first <= belief.known_good else prior * total)
    return [one / sum(masses) for one in masses]


@given(beliefs())
def test_the_rule_is_bayes(belief: Belief) -> None:
    assert belief.masses == pytest.approx(plainly(belief), abs=1e-9)


@given(beliefs())
def test_what_is_believed_is_a_distribution(belief: Belief) -> None:
    assert math.isclose(sum(belief.masses), 1, abs_tol=1e-9)
    assert min(belief.masses) >= 0
    chances = [belief.bad(one) for one in range(belief.last + 1)]
    assert chances == sorted(chances)
    for one in range(belief.last + 1):
        assert math.isclose(belief.bad(one) + belief.good(one), 1, abs_tol=1e-9)
        assert 0 <= belief.tells(one) <= 1 + 1e-9
    assert 0 <= belief.good_rate <= belief.bad_rate <= 1


@given(beliefs(), st.data())
def test_nothing_known_to_be_good_is_suspected(belief: Belief, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, belief.last))
    after = belief.after(position, data.draw(tallies))
    assert sum(after.masses[: after.known_good + 1]) == 0


@given(st.integers(1, 500), st.data())
def test_one_try_moves_the_belief_its_way(last: int, data: st.DataObject) -> None:
    position = data.draw(st.integers(1, last))
    fresh = Belief(last=last)
    assert fresh.after(position, FAIL).bad(position) >= fresh.bad(position)
    assert fresh.after(position, PASS).bad(position) <= fresh.bad(position)


def test_a_failing_rate_is_learned() -> None:
    often = Belief(last=9).after(9, Tally(failed=30)).after(0, Tally(passed=30))
    seldom = Belief(last=9).after(9, Tally(failed=3, passed=27)).after(0, Tally(passed=30))
    assert often.bad_rate > 0.95
    assert 0.05 < seldom.bad_rate < 0.25
    assert seldom.good_rate < 0.03
    flaky = Belief(last=9).after(0, Tally(failed=2, passed=38)).after(9, Tally(failed=9, passed=1))
    assert 0.02 < flaky.good_rate < 0.1


def test_a_thousand_tries_are_no_too_small_number() -> None:
    belief = Belief(last=3).after(1, Tally(passed=2000)).after(3, Tally(failed=2000))
    assert belief.masses[2] + belief.masses[3] == pytest.approx(1)
    # What no pair of rates explains is still a distribution.
    odd = Belief(last=3, tallies={0: Tally(failed=500), 3: Tally(passed=500)})
    assert sum(odd.masses) == pytest.approx(1)


def test_what_is_known_not_to_be_leaves_something_to_believe() -> None:
    seen = {10: Tally(failed=2000), 60: Tally(failed=5)}
    belief = Belief(last=60, known_good=30, tallies=seen)
    assert sum(belief.masses) == pytest.approx(1)


def test_a_long_history_is_worked_out_at_once() -> None:
    last = 50_000
    belief = Belief(last=last, tallies={last: Tally(failed=4), last // 2: Tally(passed=4)})
    assert belief.good(last // 2) == pytest.approx(sum(belief.masses[last // 2 + 1 :]))
    # Each by itself would add up half of the rest: 10^9 steps.
    assert sum(belief.good(one) > 0.5 for one in range(last)) > last // 2
