"""Which tests are flaky, how much, and whose fault it is."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import SettingsError
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.flakes import (
    Flakes,
    FlakyTest,
    Outcome,
    blame,
    find_flakes,
    flaky_test,
    propose,
    rank,
)
from ci.report.history import History
from ci.report.quarantine import load_quarantine
from tests.past_runs import record

from .conftest import T0, identity

DAY = 86_400.0
A, B = "a.py::T::one[dtype=int8,op=add]", "a.py::T::two"


def rows(text: str, *, commit: str = "c", card: str = "spyre:0") -> list[Outcome]:
    """A run a letter: p passed, f failed, F flaky, x xfailed, X xpassed."""
    verdicts = {"p": "passed", "f": "failed", "F": "flaky", "x": "xfailed", "X": "xpassed"}
    return [
        Outcome(verdict=verdicts[one], card=card, commit=commit, at=T0 + place * DAY)
        for place, one in enumerate(text)
    ]


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("ppp", None), ("fff", None), ("xxx", None), ("ppF", 1), ("F", 1), ("pfp", 1), ("pf", 1), ("fp", 1),
        ("xX", 1), ("ffFp", 3), ("fF", 2), ("", None),
    ],
)  # fmt: skip
def test_a_test_is_flaky_where_its_outcome_changes_at_a_commit(text: str, bad: int | None) -> None:
    found = flaky_test(A, rows(text))
    assert (None if found is None else found.bad) == bad
    assert found is None or found.runs == len(text)


def test_what_changes_between_commits_is_no_flake() -> None:
    assert flaky_test(A, [*rows("ff", commit="c"), *rows("pp", commit="d")]) is None
    found = flaky_test(A, [*rows("ff", commit="c"), *rows("pF", commit="d")])
    assert found is not None
    assert (found.bad, found.runs, found.rate) == (1, 4, 0.25)


def test_the_last_bad_run_and_its_cards_are_told() -> None:
    found = flaky_test(A, [*rows("pf", card="spyre:1"), *rows("pfFp", card="spyre:0")])
    assert found is not None
    assert (found.last, found.cards) == (T0 + 2 * DAY, {"spyre:0": 2, "spyre:1": 1})
    assert found.line(T0 + 5 * DAY) == (
        " 50% 3 of 6 runs, last 3 days ago, on spyre:0 2, spyre:1 1: the test  " + A
    )


@pytest.mark.parametrize(
    ("bad", "ran", "wanted"),
    [
        ({"a": 3}, {"a": 4, "b": 4, "c": 4, "d": 4}, "card"),
        ({"a": 3}, {"a": 3, "b": 9}, "unclear"),
        ({"a": 3}, {"a": 3}, "unclear"),
        ({"a": 1}, {"a": 2, "b": 2}, "unclear"),
        ({"a": 1}, {"a": 1, "b": 40}, "unclear"),
        ({"a": 2, "b": 1}, {"a": 9, "b": 9}, "test"),
        ({}, {}, "unclear"),
    ],
)
def test_it_is_the_card_where_chance_hardly_explains_it(
    bad: dict[str, int], ran: dict[str, int], wanted: str
) -> None:
    assert blame(bad, ran) == wanted


def test_few_runs_rank_below_many_of_the_same_share() -> None:
    found = rank({"once": rows("F"), "often": rows("Fp" * 20), "seldom": rows("F" + "p" * 39)}, ran=100)
    assert [one.id for one in found.tests] == ["often", "once", "seldom"]


@given(
    st.lists(st.tuples(st.sampled_from("pfFxX"), st.sampled_from("cd"), st.sampled_from("01")), max_size=12)
)
def test_a_flaky_test_is_told_whole_whatever_its_runs(told: list[tuple[str, str, str]]) -> None:
    found = flaky_test(A, [rows(text, commit=commit, card=card)[0] for text, commit, card in told])
    if found is not None:
        assert 1 <= found.bad <= found.runs == len(told)
        assert sum(found.cards.values()) == found.bad
        assert math.isfinite(found.certain_rate)


@pytest.mark.parametrize(
    ("ran", "flaky", "said"),
    [
        (1000, 49, "49 of 1,000 tests that ran are flaky: 4.90 %, fewer than 5 %"),
        (20, 1, "1 of 20 tests that ran is flaky: 5.00 %, not fewer than 5 %"),
        (100, 5, "5 of 100 tests that ran are flaky: 5.00 %, not fewer than 5 %"),
        (0, 0, "no test ran"),
    ],
)
def test_the_share_is_told_against_the_limit(ran: int, flaky: int, said: str) -> None:
    one = FlakyTest(id=A, runs=1, bad=1, last=T0, cards={}, blame="unclear")
    assert Flakes(ran=ran, tests=[one] * flaky).line() == said


def test_exactly_the_limit_is_not_fewer_and_none_at_all_always_is() -> None:
    one = FlakyTest(id=A, runs=1, bad=1, last=T0, cards={}, blame="unclear")
    assert not Flakes(ran=20, tests=[one]).below(5)
    assert Flakes(ran=21, tests=[one]).below(5)
    assert Flakes(ran=20).below(0)
    assert Flakes(ran=20).line(0) == "0 of 20 tests that ran are flaky: 0.00 %"


def test_a_proposal_can_be_pasted_once_owner_and_issue_are_there(tmp_path: Path) -> None:
    one = FlakyTest(id='a.py::T::"quoted"', runs=12, bad=3, last=T0, cards={}, blame="test")
    file = tmp_path / "quarantine.yaml"
    file.write_text(propose([one], issue="", owner="", expires=date(2026, 3, 1)))
    with pytest.raises(SettingsError, match="issue is None"):
        load_quarantine(file, today=date(2026, 2, 2))
    file.write_text(propose([one], issue="https://e.test/1", owner="@kernels: all", expires=date(2026, 3, 1)))
    (entry,) = load_quarantine(file, today=date(2026, 2, 2)).entries
    assert (entry.named, entry.mark.owner, entry.mark.expires) == (one.id, "@kernels: all", "2026-03-01")
    assert entry.mark.reason == "flaky in 3 of 12 runs, last on 2026-02-02"
    file.write_text(propose([], issue="", owner="", expires=date(2026, 3, 1)))
    assert load_quarantine(file, today=date(2026, 2, 2)).entries == ()


BUILT: dict[str, object] = {"commit": "c0ffee"}


def result(name: str, verdict: Verdict, card: str | None = "spyre:0") -> Result:
    return Result(id=name, verdict=verdict, card=card, attempts=1, seconds=1.0)


def history(path: Path, *runs: tuple[dict[str, object], list[Result]]) -> Path:
    for number, (change, results) in enumerate(runs):
        who = replace(identity(), **{"run_id": number + 1, "started_at": T0 + number * DAY, **change})  # type: ignore[arg-type]  # keys of an identity
        record(path, who, results, {})
    return path


def test_the_history_tells_flaky_tests_by_commit_device_and_time(tmp_path: Path) -> None:
    odd = "a.py::%ED%B2%80"
    path = history(
        tmp_path / "h.sqlite",
        (BUILT, [result(A, Verdict.PASSED), result(B, Verdict.FAILED), result(odd, Verdict.FLAKY)]),
        (
            BUILT,
            [result(A, Verdict.FAILED, "spyre:1"), result(B, Verdict.FAILED), result("s", Verdict.SKIPPED)],
        ),
        ({"commit": "fixed"}, [result(A, Verdict.PASSED), result(B, Verdict.PASSED)]),
        ({"device": "cpu"}, [result(B, Verdict.FLAKY)]),
        ({}, [result("h", Verdict.HARDWARE), result("n", Verdict.NOT_RUN, None)]),
    )
    found = find_flakes(History(path), device="spyre", since=0)
    assert found.ran == 3
    assert {one.id: (one.bad, one.runs, dict(one.cards)) for one in found.tests} == {
        A: (1, 3, {"spyre:1": 1}), odd: (1, 1, {"spyre:0": 1}),
    }  # fmt: skip
    assert [one.id for one in find_flakes(History(path), device="cpu", since=0).tests] == [B]
    late = find_flakes(History(path), device="spyre", since=T0 + 2 * DAY)
    assert (late.ran, late.tests) == (2, [])


def test_where_nobody_says_what_was_checked_out_a_fix_between_two_runs_is_no_flake(tmp_path: Path) -> None:
    path = history(
        tmp_path / "h.sqlite",
        ({"commit": ""}, [result(A, Verdict.FAILED), result(B, Verdict.FLAKY)]),
        ({"commit": ""}, [result(A, Verdict.PASSED), result(B, Verdict.PASSED)]),
    )
    found = find_flakes(History(path), device="spyre", since=0)
    assert [(one.id, one.bad, one.runs) for one in found.tests] == [(B, 1, 2)]


def test_a_run_of_a_broken_build_is_passed_over_and_told(tmp_path: Path) -> None:
    names = [f"a.py::T::t{number}" for number in range(50)]

    def ran(failed: int) -> list[Result]:
        return [
            result(name, Verdict.FAILED if number < failed else Verdict.PASSED)
            for number, name in enumerate(names)
        ]

    path = history(tmp_path / "h.sqlite", (BUILT, ran(0)), (BUILT, ran(11)), (BUILT, ran(1)))
    found = find_flakes(History(path), device="spyre", since=0)
    assert (found.broken, [one.id for one in found.tests], found.tests[0].runs) == (1, names[:1], 2)
    assert found.line() == (
        "1 of 50 tests that ran is flaky: 2.00 %, fewer than 5 % (1 run skipped: more than 20 % failed)"
    )
    few = history(tmp_path / "few.sqlite", (BUILT, ran(0)[:9]), (BUILT, ran(9)[:9]), (BUILT, ran(10)))
    found = find_flakes(History(few), device="spyre", since=0)
    assert (found.broken, len(found.tests)) == (0, 9)  # 10 of 50 are 20 %, and 9 are too few to tell
    only = history(tmp_path / "only.sqlite", (BUILT, ran(50)))
    assert find_flakes(History(only), device="spyre", since=0).line() == (
        "no test ran (1 run skipped: more than 20 % failed)"
    )
