"""What is run again: on other cards, a number of times, and not when everything fails."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.record.journal import XPASS_STRICT
from ci.record.result import Try
from ci.record.verdict import Verdict
from ci.runner.retries import (
    BROKEN,
    IN_ORDER,
    NO_CARD,
    NO_OTHER_CARD,
    TOO_MANY,
    Outcomes,
    Pending,
    Retries,
    Retry,
)
from tests.unit.runner.plans import OneFile

FAILED = Verdict.FAILED


def fail(retries: Retries, name: str, card: str) -> None:
    retries.failed(name, card=card)


def test_a_failed_test_waits_for_a_card_it_did_not_fail_on() -> None:
    retries = Retries(OneFile(), most=1, budget=9)
    fail(retries, "a", "one")
    assert retries.take("one") is None
    assert not retries.waiting[0].suits(["one"])
    assert retries.waiting[0].suits(["two"])
    found = retries.take("two")
    assert found is not None
    assert (found.id, found.attempt, found.avoid) == ("a", 2, frozenset({"one"}))
    assert retries.take("two") is None


def test_of_several_cards_each_is_one_it_failed_on() -> None:
    retries = Retries(OneFile({"a": 2}), most=1, budget=9)
    fail(retries, "a", "one+two")
    assert retries.take("two") is None
    assert retries.take("two+three") is None
    assert retries.take("three+four") is not None


def test_where_there_are_no_cards_any_will_do() -> None:
    retries = Retries(OneFile(), most=1, budget=9, any_card=True)
    fail(retries, "a", "cpu:0")
    assert retries.take("cpu:0") is not None


def test_no_test_is_run_again_more_often_than_asked() -> None:
    retries = Retries(OneFile(), most=2, budget=9)
    for number in range(5):
        fail(retries, "a", f"card {number}")
        found = retries.take("other")
        assert (found is not None) == (number < 2)
        assert found is None or found.attempt == number + 2


def test_a_test_that_another_host_had_begun_goes_on_counting_from_there() -> None:
    retries = Retries(OneFile(), most=2, budget=9)
    retries.failed("a", card="one", attempt=2)
    first = retries.take("two")
    assert first is not None
    retries.failed("a", card="two", attempt=first.attempt)
    second = retries.take("three")
    assert second is not None
    assert (first.attempt, second.attempt) == (3, 4)


def test_where_more_tests_fail_than_may_be_run_again_it_is_counted() -> None:
    retries = Retries(OneFile(), most=2, budget=2)
    for name in "abcd":
        fail(retries, name, "one")
    assert [one.id for one in retries.waiting] == ["a", "b"]
    assert [one.id for one in retries.refused] == ["c", "d"]
    assert retries.take("two") is not None
    fail(retries, "a", "two")
    assert [one.id for one in retries.waiting] == ["b", "a"]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["1", "2", "3", "1+2"]))), st.integers(0, 3)
)
def test_nothing_is_ever_given_to_a_card_it_failed_on(events: list[tuple[str, str]], most: int) -> None:
    retries = Retries(OneFile(), most=most, budget=2)
    failed: dict[str, set[str]] = {}
    given_again: dict[str, int] = {}
    for name, card in events:
        fail(retries, name, card)
        failed.setdefault(name, set()).update(card.split("+"))
        for free in ("1", "2", "3"):
            while (one := retries.take(free)) is not None:
                assert free not in one.avoid
                given_again[one.id] = given_again.get(one.id, 0) + 1
    assert all(times <= most for times in given_again.values())
    assert len(given_again) <= 2


def test_a_test_of_several_cards_runs_again_on_as_many() -> None:
    retries = Retries(OneFile({"a": 2}), most=1, budget=9)
    fail(retries, "a", "one+two")
    assert retries.take("three") is None
    found = retries.take("three+four")
    assert found is not None
    assert found.cards == 2


def test_a_try_that_was_lost_costs_no_try_and_no_card() -> None:
    retries = Retries(OneFile(), most=1, budget=9)
    retries.lost("a")
    first = retries.take("one")
    assert first is not None
    assert first.attempt == 2
    retries.failed("a", card="one", attempt=first.attempt)
    assert retries.take("one") is None
    second = retries.take("two")
    assert second is not None
    assert second.attempt == 3
    retries.failed("a", card="two", attempt=second.attempt)
    assert retries.waiting == []


def test_a_test_that_costs_every_worker_is_not_tried_for_ever() -> None:
    retries = Retries(OneFile(), most=2, budget=9)
    for _ in range(5):
        retries.lost("a")
        retries.take("one")
    assert retries.waiting == []
    assert Retries(OneFile(), most=0, budget=9).take("one") is None


def test_what_an_earlier_part_of_the_run_owed_is_run_again_once() -> None:
    retries = Retries(OneFile(), most=1, budget=9)
    retries.resume([Pending("a", frozenset({"one"}), 2, failed=1)])
    assert retries.take("one") is None
    assert retries.take("two") == Retry(id="a", file="a.py", of=0, attempt=2, avoid=frozenset({"one"}))
    retries.failed("a", card="two", attempt=2)
    assert retries.waiting == []


def test_a_test_that_failed_twice_before_has_one_try_less() -> None:
    retries = Retries(OneFile(), most=2, budget=9)
    failed_on = frozenset({"one", "two"})
    retries.resume([Pending("a", failed_on, 3, failed=2, lost=1)])
    assert retries.take("three") == Retry(id="a", file="a.py", of=0, attempt=3, avoid=failed_on)
    retries.failed("a", card="three", attempt=3)
    assert retries.waiting == []


def test_a_narrow_test_stays_narrow_whatever_it_ran_on() -> None:
    retries = Retries(OneFile(), most=2, budget=9)
    retries.failed("a", card="one")
    assert retries.take("two+three") is not None
    retries.failed("a", card="two+three", attempt=2)
    found = retries.take("four")
    assert found is not None
    assert found.cards == 1


def test_cards_with_which_no_worker_lives_are_tried_no_more() -> None:
    retries = Retries(OneFile({"a": 2}), most=1, budget=9, any_card=True)
    retries.failed("a", card="one+two")
    retries.bar(["three", "four"])
    assert retries.take("three+four") is None
    assert retries.take("one+two") is not None


def test_what_is_not_run_again_says_why() -> None:
    retries = Retries(OneFile(chains={"b": ("a",)}), most=1, budget=1)
    failed, died = Try(outcome=Verdict.FAILED), Try(outcome=Verdict.FAILED, cause="signal")
    passed = Try(outcome=Verdict.FAILED, message=f"{XPASS_STRICT} known")

    def said(in_vain: dict[str, str] | None = None, **ended: Try) -> list[tuple[str, str]]:
        told = retries.learn(Outcomes(ended, in_vain or {}), card="one", attempt=1)
        return [(name, one.message) for one in told for name in one.ids]

    assert said({"z": "no such file"}, x=Try(outcome=Verdict.PASSED), y=passed) == [("z", "no such file")]
    assert said(b=failed) == [("b", IN_ORDER)]
    assert said(a=died) == []
    assert said(b=failed) == [("b", f"{IN_ORDER}; {BROKEN.format('a')}")]
    assert said(c=failed) == []
    retries.resume([Pending("d")])
    assert [(one.ids, one.message) for _, one in retries.give_up("held by r")] == [
        (["a"], f"{NO_OTHER_CARD}; held by r"), (["d"], f"{NO_CARD}; held by r"), (["c"], TOO_MANY),
    ]  # fmt: skip


def test_without_retries_nothing_is_said_of_an_order() -> None:
    retries = Retries(OneFile(chains={"b": ("a",)}), most=0, budget=0)
    assert list(retries.learn(Outcomes({"b": Try(outcome=Verdict.FAILED)}, {}), card="one", attempt=1)) == []


@pytest.mark.parametrize(
    ("most", "rows", "failures"),
    [
        (0, [("a", FAILED), ("b", FAILED)], 0),
        (1, [("a", FAILED)], 1),
        (2, [("a", FAILED)], 0),
        (2, [("a", FAILED), ("a", FAILED)], 0),
        (2, [("a", FAILED), ("b", FAILED), ("c", FAILED)], 2),
        (1, [("a", Verdict.XFAILED), ("b", Verdict.HARDWARE), ("quarantined", FAILED)], 0),
    ],
)
def test_after_so_many_failed_tests_nothing_more_is_run(
    most: int, rows: list[tuple[str, Verdict]], failures: int
) -> None:
    retries = Retries(OneFile(), most=0, budget=0, max_fail=most, spared=["quarantined"])
    for name, outcome in rows:
        told = Outcomes(ended={name: Try(outcome=outcome)}, in_vain={})
        assert not list(retries.learn(told, card="one", attempt=1))
    many = "failure" if failures == 1 else "failures"
    assert retries.enough == (f"stopped after {failures} {many} (--max-fail)" if failures else "")
