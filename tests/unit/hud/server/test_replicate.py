"""What of ClickHouse does not fit a ledger that was put back."""

from __future__ import annotations

from ci.store.replicate import Differences, Held, Listed, differences

A, B, C = (1, 1, 1), (2, 1, 2), (3, 1, 3)


def listed(
    job: tuple[int, int, int], number: int, stored: int = 3, kind: str = "junit", done: int = 1
) -> Listed:
    return Listed(*job, number, kind, stored, done)


def held(tests: dict[tuple[int, int, int, int], int], *summed: tuple[int, int, int]) -> Held:
    cards: dict[tuple[int, int, int], int] = {}
    for key, number in tests.items():
        cards[key[:3]] = cards.get(key[:3], 0) + number
    return Held(tests=tests, cards=cards, summaries=dict.fromkeys([*cards, *summed], 1))


NOTHING = Differences(rows=[], lost=[], recount=[], forget=[])


def test_what_fits_stays_as_it_is() -> None:
    ledger = [listed(A, 1), listed(A, 2, 4), listed(B, 3, 1, "test_run_summary"), listed(C, 4, 0)]
    assert differences(held({(*A, 1): 3, (*A, 2): 4}, B), ledger, last=4) == NOTHING
    assert differences(held({}), [], last=0) == NOTHING


def test_tests_of_an_upload_nobody_knows_go_and_their_job_is_counted_anew() -> None:
    found = differences(held({(*A, 1): 3, (*A, 2): 5, (*B, 3): 1}), [listed(A, 1)], last=1)
    assert found == Differences(rows=[(*A, 2), (*B, 3)], lost=[], recount=[A], forget=[B])


def test_an_upload_whose_tests_are_not_all_there_can_be_sent_again() -> None:
    found = differences(held({(*A, 1): 2}), [listed(A, 1), listed(B, 2)], last=2)
    assert found == Differences(rows=[(*A, 1)], lost=[1, 2], recount=[], forget=[A, B])


def test_a_summary_that_was_replaced_or_is_gone_can_be_sent_again() -> None:
    ledger = [listed(A, 1, 1, "test_run_summary"), listed(B, 2, 1, "test_run_summary")]
    found = differences(held({(*A, 7): 3}), ledger, last=2)
    assert found == Differences(rows=[(*A, 7)], lost=[1, 2], recount=[], forget=[A])


def test_what_is_being_sent_is_left_alone() -> None:
    ledger = [listed(A, 1, 0, done=0), listed(B, 2)]
    assert differences(held({(*A, 1): 2, (*B, 2): 1}), ledger, last=1) == NOTHING


def test_counts_that_were_not_made_before_it_was_cut_off_are_made() -> None:
    there = Held(tests={(*A, 1): 3}, cards={A: 8}, summaries={A: 1, B: 1})
    found = differences(there, [listed(A, 1)], last=1)
    assert found == Differences(rows=[], lost=[], recount=[A], forget=[B])
