from __future__ import annotations

import pytest

from ci.lanes.noted import Attempt, Outcome
from ci.lanes.order import Seen, Standing
from ci.lanes.tending import outcome
from tests.lane_settings import lane

LANE = lane("0 0 * * *", retries={"most": 1, "first_s": 100, "jitter": 0})
ENDS = [one for one in Standing if one.ended]


def end(standing: Standing, *, asked: str = "", tries: int = 1) -> Outcome:
    attempt = Attempt(
        lane="one", due=0, number=1, kind="jenkins", seed=0, limit_s=60, begun_at=0, asked=asked
    )
    return outcome(attempt, Seen(standing=standing, said="why"), lane=LANE, tries=tries, now=1000)


@pytest.mark.parametrize("standing", ENDS)
def test_what_told_what_was_asked_is_over_and_the_rest_is_tried_again(standing: Standing) -> None:
    answered = standing in {Standing.PASSED, Standing.FAILED, Standing.CANCELLED}
    assert end(standing) == Outcome(
        seen=Seen(standing=standing, said="why"), again_at=None if answered else 1100
    )
    assert end(standing, tries=2).again_at is None


@pytest.mark.parametrize("standing", ENDS)
def test_what_was_told_to_end_with_the_worker_is_handed_back_unless_it_answered(standing: Standing) -> None:
    found = end(standing, asked="ending", tries=2)
    answered = standing in {Standing.PASSED, Standing.FAILED}
    assert (found.handed_back, found.again_at) == ((False, None) if answered else (True, 1000))
    assert found.seen.standing is (standing if answered else Standing.CANCELLED)


@pytest.mark.parametrize("standing", ENDS)
def test_what_was_told_to_end_at_its_limit_timed_out_unless_it_answered(standing: Standing) -> None:
    found = end(standing, asked="limit")
    answered = standing in {Standing.PASSED, Standing.FAILED}
    assert found.seen.standing is (standing if answered else Standing.TIMED_OUT)
    assert found.again_at == (None if answered else 1100)
    assert found.seen.said == ("why" if answered else "took longer than its 60 s; why")


def test_a_limit_that_is_said_already_is_said_once() -> None:
    attempt = Attempt(
        lane="one", due=0, number=1, kind="local", seed=0, limit_s=60, begun_at=0, asked="limit"
    )
    for said in ("took longer than its 60 s", "took longer than its 60 s; ended by SIGKILL"):
        seen = Seen(standing=Standing.TIMED_OUT, said=said)
        assert outcome(attempt, seen, lane=LANE, tries=1, now=0).seen.said == said


def test_a_lane_that_is_in_the_settings_no_more_is_not_tried_again() -> None:
    attempt = Attempt(lane="one", due=0, number=1, kind="local", seed=0, limit_s=60, begun_at=0)
    assert outcome(attempt, Seen(standing=Standing.GONE), lane=None, tries=1, now=0).again_at is None
