"""The belief is Bayes' rule, a search takes the fewest steps, and the stated confidence holds."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.bisect.belief import APART, BAD_RATES, END_DOUBT, GOOD_RATES, Belief, Tally
from tests.unit.bisect.kit import belief_of, play

tallies = st.builds(Tally, passed=st.integers(0, 6), failed=st.integers(0, 6))


@st.composite
def beliefs(draw: st.DrawFn) -> Belief:
    last = draw(st.integers(1, 12))
    return belief_of(last, draw(st.dictionaries(st.integers(0, last), tallies, max_size=6)))


def plainly(belief: Belief) -> list[float]:
    """Hypothesis by hypothesis, rate by rate, commit by commit."""
    masses = []
    for first in range(belief.last + 2):
        total = 0.0
        for p, weight_p in BAD_RATES.items():
            for q, weight_q in GOOD_RATES.items():
                if p > APART * q:
                    chance = weight_p * weight_q
                    for position, seen in belief.tallies.items():
                        rate = p if position >= first else q
                        chance *= rate**seen.failed * (1 - rate) ** seen.passed
                    total += chance
        inner = (1 - 2 * END_DOUBT) / belief.last
        masses.append(total * (END_DOUBT if first in (0, belief.last + 1) else inner))
    return [one / sum(masses) for one in masses]


@given(beliefs())
def test_it_is_bayes_rule(belief: Belief) -> None:
    assert belief.masses == pytest.approx(plainly(belief), abs=1e-9)
    assert math.isclose(sum(belief.masses), 1, abs_tol=1e-9)
    for one in range(belief.last + 1):
        assert -1e-9 <= belief.gain(one) <= 1 + 1e-9


@given(beliefs(), st.integers(1, 8), st.data())
def test_a_round_asks_what_can_be_asked_and_a_finding_lies_between_the_ends(
    belief: Belief, workers: int, data: st.DataObject
) -> None:
    skipped = data.draw(st.sets(st.integers(0, belief.last - 1)))
    belief = Belief(last=belief.last, tallies=belief.tallies, limits=belief.limits, skipped=skipped)
    asked = belief.next_round(workers)
    assert len(asked) <= workers
    assert len(set(asked)) == len(asked)
    assert not set(asked) & skipped
    assert all(0 <= one <= belief.last for one in asked)
    kind, first, last, probability = belief.finding()
    assert 0 <= probability <= 1
    if kind in {"found", "range"}:
        assert 1 <= first <= last <= belief.last
        assert (kind == "found") == (first == last)


def test_the_first_round_tries_the_bad_end_whatever_the_limits_are() -> None:
    assert belief_of(1, confidence=0.5).next_round(1) == [1]
    assert belief_of(64).next_round(4)[0] == 64


def test_a_thousand_tries_are_no_too_small_number() -> None:
    belief = belief_of(3, {1: Tally(passed=2000), 3: Tally(failed=2000)})
    assert math.isclose(sum(belief.masses), 1, abs_tol=1e-9)
    assert belief.bad(1) < 1e-9 < belief.bad(2) < belief.bad(3)


@pytest.mark.parametrize(("workers", "most"), [(1, 7), (4, 3)])
def test_sure_answers_take_as_many_rounds_as_a_plain_search(workers: int, most: int) -> None:
    for broken in range(1, 65, 3):
        belief, rounds = play(64, broken, workers=workers)
        assert belief.finding()[:3] == ("found", broken, broken)
        assert rounds <= most + (broken == 1)  # then the good end is tried, too
        assert belief.tries <= 60


@pytest.mark.parametrize(("broken", "kind"), [(0, "before"), (65, "never")])
def test_no_commit_between_the_ends_broke_it(broken: int, kind: str) -> None:
    belief, _ = play(64, broken)
    found, _, _, probability = belief.finding()
    assert (found, probability >= 0.99) == (kind, True)


@pytest.mark.parametrize(
    ("p", "q", "searches", "wrong_at_most", "confidence"),
    [(0.3, 0, 10, 0, 0.99), (0.5, 0.02, 6, 0, 0.99), (1, 0.02, 10, 0, 0.99), (0.1, 0.02, 2, 0, 0.99),
     (1, 0.25, 10, 2, 0.9), (0.7, 0.2, 4, 1, 0.9)],
)  # fmt: skip
def test_what_is_stated_holds_for_flaky_tests(
    p: float, q: float, searches: int, wrong_at_most: int, confidence: float
) -> None:
    wrong = 0
    for seed in range(searches):
        broken = random.Random(seed).randint(1, 32)  # noqa: S311  # no secret
        belief, _ = play(32, broken, p=p, q=q, seed=seed, confidence=confidence, tries_in_all=1000)
        _, first, last, probability = belief.finding()
        wrong += probability >= confidence and not first <= broken <= last
    assert wrong <= wrong_at_most


def test_a_test_that_fails_as_often_everywhere_is_broken_by_no_commit() -> None:
    assert play(16, 0, p=0.4, seed=1)[0].finding()[0] in {"before", "never"}


def test_what_cannot_be_told_apart_is_not_asked_for_ever() -> None:
    seen = {64: Tally(failed=9), 29: Tally(passed=9), 31: Tally(failed=9)}
    belief = belief_of(64, seen)
    assert belief.next_round(4)
    barred = Belief(last=64, tallies=seen, limits=belief.limits, skipped={30})
    assert barred.next_round(4) == []
    assert barred.finding()[:3] == ("range", 30, 31)


def test_a_commit_is_tried_until_it_is_settled_and_no_further() -> None:
    assert not belief_of(8).enough(4, 0)
    assert belief_of(8, {4: Tally(passed=5)}, tries=5).enough(4, 5)
    assert belief_of(8, {4: Tally(passed=9)}, tries_in_all=9).enough(8, 0)
    sure = belief_of(8, {8: Tally(failed=9), 4: Tally(failed=9)})
    assert not sure.enough(4, 0)  # what is asked is tried, or a search would go round for ever
    assert not sure.enough(4, 1)  # it came up again
    assert sure.enough(4, 9)
    assert not belief_of(8, {8: Tally(failed=3)}).enough(8, 3)  # its rate weighs all later answers


def test_a_lower_confidence_takes_fewer_tries() -> None:
    low, high = (
        sum(play(64, 40, p=0.5, seed=seed, confidence=confidence)[0].tries for seed in range(4))
        for confidence in (0.8, 0.999)
    )
    assert low < high
