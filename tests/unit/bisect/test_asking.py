"""How many steps a search takes, and whether what it states holds."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.bisect.asking import Limits, at_once, ended, enough, finding, next_round, rounds_expected, settled
from ci.bisect.belief import FAIL, Belief, Tally
from tests.unit.bisect.world import play


def anywhere(seed: int, last: int = 64) -> int:
    return random.Random(seed).randint(1, last)  # noqa: S311  # no secret


@pytest.mark.parametrize(("workers", "most"), [(1, 7), (4, 3)])
@pytest.mark.parametrize(("commits", "every"), [(63, 1), (64, 5)])
def test_sure_answers_take_as_many_rounds_as_a_plain_search(
    commits: int, every: int, workers: int, most: int
) -> None:
    for broken in range(1, commits + 1, every):
        played = play(commits, broken, workers=workers, history=True)
        assert (played.finding.kind, played.finding.first, played.finding.sure) == ("found", broken, True)
        assert played.rounds <= most
        assert played.tries <= 45


def test_ends_nobody_tested_take_a_step_more_only_for_the_first_commit() -> None:
    taken = {broken: play(64, broken).rounds for broken in (1, 2, 3, *range(4, 65, 6), 64)}
    assert {broken for broken, rounds in taken.items() if rounds > 7} <= {1}
    assert max(taken.values()) == 8
    assert max(play(64, broken, workers=4).rounds for broken in range(1, 65, 6)) == 3


def test_no_commit_between_the_ends() -> None:
    before, never = play(64, 0), play(64, 65)
    assert (before.finding.kind, before.finding.sure) == ("before", True)
    assert (never.finding.kind, never.finding.sure) == ("never", True)
    assert play(64, 65, workers=4).finding.kind == "never"


def test_a_third_of_tries_failing_is_found_by_twenty_seeds_out_of_twenty() -> None:
    for seed in range(20):
        broken = anywhere(seed)
        played = play(64, broken, p=0.3, seed=seed, history=True)
        assert (played.finding.kind, played.finding.first) == ("found", broken), seed
        assert played.finding.sure
        assert played.finding.probability >= 0.99


@pytest.mark.parametrize("q", [0.0, 0.02])
@pytest.mark.parametrize(("p", "searches", "clear"), [(1, 20, 20), (0.5, 20, 19), (0.3, 12, 10), (0.1, 5, 3)])
def test_what_is_stated_holds(p: float, searches: int, clear: int, q: float) -> None:
    # At 99 %, a wrong one in so few is the most that chance allows.
    wrong = sure = 0
    for seed in range(searches):
        broken = anywhere(seed)
        played = play(64, broken, p=p, q=q, seed=seed, limits=Limits(in_all=1200))
        sure += played.finding.sure
        wrong += played.finding.sure and not played.right(broken)
    assert wrong <= 1
    assert sure >= clear


@pytest.mark.parametrize(("p", "q"), [(1.0, 0.2), (1.0, 0.3), (0.7, 0.2)])
def test_what_is_stated_holds_where_good_commits_fail_often(p: float, q: float) -> None:
    # At 90 %; more than four of sixteen happen to one search in fifty.
    wrong, limits = 0, Limits(confidence=0.9, in_all=800)
    for seed in range(16):
        broken = anywhere(seed, 32)
        played = play(32, broken, p=p, q=q, seed=seed, limits=limits)
        wrong += played.finding.sure and not played.right(broken)
    assert wrong <= 3


def test_ends_that_look_alike_by_chance_are_looked_at_again() -> None:
    # The bad end failed each time at first, and the middle fails less: only the ends tell which it is.
    played = play(64, 31, p=0.3, seed=4, history=True)
    assert (played.finding.kind, played.finding.first) == ("found", 31)
    assert played.tries < 800


@pytest.mark.parametrize("rate", [0.3, 0.6])
def test_a_test_that_fails_as_often_everywhere_is_broken_by_none(rate: float) -> None:
    played = play(16, 0, p=rate, seed=1)
    assert played.finding.kind in {"before", "never"}
    assert played.finding.sure
    assert played.tries < 1500


def test_what_cannot_be_told_apart_is_not_asked_for_ever() -> None:
    limits, barred = Limits(), {30}
    belief = Belief(last=64).after(64, Tally(failed=9)).after(29, Tally(passed=9)).after(31, Tally(failed=9))
    assert ended(belief, limits, barred)
    assert not ended(belief, limits)
    assert next_round(belief, limits, workers=4, barred=barred, tried={64}) == []
    assert finding(belief, limits).sure


@pytest.mark.parametrize("q", [0.0, 0.02])
def test_a_test_that_hardly_ever_fails_is_found_or_said_not_to_be(q: float) -> None:
    for seed in range(3):
        broken = anywhere(seed, 16)
        played = play(16, broken, p=0.05, q=q, seed=seed, workers=4, limits=Limits(in_all=1000))
        assert played.right(broken) or not played.finding.sure
        assert played.tries <= 1000 + 4


def test_a_lower_confidence_takes_fewer_tries() -> None:
    low = [play(64, 40, p=0.5, seed=seed, limits=Limits(confidence=0.8)).tries for seed in range(10)]
    high = [play(64, 40, p=0.5, seed=seed, limits=Limits(confidence=0.999)).tries for seed in range(10)]
    assert sum(low) < sum(high)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Belief, int, set[int]]:
    last = draw(st.integers(1, 40))
    seen = st.builds(Tally, passed=st.integers(0, 9), failed=st.integers(0, 9))
    belief = Belief(last=last, tallies=draw(st.dictionaries(st.integers(0, last), seen, max_size=8)))
    return belief, draw(st.integers(1, 8)), draw(st.sets(st.integers(0, last), max_size=last + 1))


@given(situations(), st.booleans())
def test_a_round_asks_what_can_be_asked(situation: tuple[Belief, int, set[int]], begun: bool) -> None:
    belief, workers, barred = situation
    asked = next_round(belief, Limits(), workers=workers, barred=barred, tried={0} if begun else ())
    assert len(asked) <= workers
    assert not set(asked) & barred
    assert all(0 <= one <= belief.last for one in asked)
    if begun and ended(belief, Limits()):
        assert asked == []


@given(situations())
def test_what_is_found_is_between_the_ends_and_adds_up(situation: tuple[Belief, int, set[int]]) -> None:
    found = finding(situation[0], Limits())
    assert 0 <= found.probability <= 1 + 1e-9
    seen = any(one.tries for one in situation[0].tallies.values())
    assert found.sure == (seen and found.probability >= 0.99)
    if found.kind in {"found", "range"}:
        assert 1 <= found.first <= found.last <= situation[0].last
    assert (found.kind == "found") == (found.kind in {"found", "range"} and found.first == found.last)


def test_a_commit_is_tried_until_it_is_settled_and_no_further() -> None:
    limits = Limits(per_visit=5)
    fresh = Belief(last=8)
    assert not enough(fresh, limits, 4, visit=Tally())
    # What is asked is tried, however settled it seems, or a search could go round for ever.
    assert not enough(fresh.after(4, Tally(failed=50)), limits, 4, visit=Tally())
    assert enough(fresh, limits, 4, visit=Tally(passed=5))
    sure = fresh.after(8, Tally(failed=9)).after(4, Tally(failed=9))
    assert settled(sure, limits, 4)
    assert enough(sure, limits, 4, visit=FAIL)
    # The bad end's rate weighs all later answers.
    assert not enough(sure, limits, 8, visit=FAIL, learn=True)


def test_no_commit_is_named_that_nobody_tried_anything_of() -> None:
    only, limits = Belief(last=1), Limits(confidence=0.5)
    assert ended(only, limits)
    assert next_round(only, limits, workers=1) == [1]
    assert not finding(only, limits).sure
    assert play(1, 1, limits=limits).tries >= 1


def test_tries_are_made_in_one_go_where_that_saves_time() -> None:
    limits, fresh = Limits(), Belief(last=64)
    assert at_once(fresh, limits, 64, visit=Tally(), learn=True) == 4
    known = fresh.after(64, Tally(failed=4))
    assert at_once(known, limits, 64, visit=Tally(failed=4), learn=True) == 0
    assert at_once(known, limits, 32, visit=Tally()) == 1
    passed = known.after(32, Tally(passed=1))
    number = at_once(passed, limits, 32, visit=Tally(passed=1))
    assert 1 < number <= 6
    assert settled(passed.after(32, Tally(passed=number)), limits, 32)
    assert not settled(passed.after(32, Tally(passed=number - 1)), limits, 32)
    assert at_once(fresh, Limits(per_visit=3), 64, visit=Tally(passed=1)) == 2


def test_commits_that_cannot_be_tried_leave_a_range() -> None:
    limits, barred = Limits(), set(range(20, 31))
    belief, tried = Belief(last=64), set[int]()
    while asked := next_round(belief, limits, workers=1, barred=barred, tried=tried):
        one = asked[0]
        belief = belief.after(one, Tally(failed=6) if one >= 25 else Tally(passed=6))
        tried.add(one)
        assert len(tried) < 20
        if settled(belief, limits, 19) and settled(belief, limits, 31):
            break
    found = finding(belief, limits)
    assert found.kind == "range"
    assert 20 <= found.first <= 25 <= found.last <= 31


@pytest.mark.parametrize(("commits", "workers", "rounds"), [(64, 1, 7), (64, 4, 3), (1, 1, 1), (1000, 1, 11)])
def test_rounds_are_told_beforehand(commits: int, workers: int, rounds: int) -> None:
    assert rounds_expected(commits, workers) == rounds
