"""What the relay and HUD say in words; tests/integration/hud/test_faults.py has a row a status."""

from __future__ import annotations

import json

import pytest

from ci.hud.answers import Answer, Outcome, Reply, classify

TRANSITION = '{"error": "callback rejected: invalid state transition delivery_id=1"}'


def answer(status: int, body: str, *, nightly: bool = True, **more: bool) -> Answer:
    return classify(Reply(status=status, body=body), nightly=nightly, **more)


@pytest.mark.parametrize(
    "body",
    [
        TRANSITION,
        '{"detail": "callback rejected: invalid state transition delivery_id=1 repo=o/r status=in_progress"}',
        "Invalid state transition",
    ],
)
@pytest.mark.parametrize(
    ("nightly", "doubtful", "begins", "outcome", "said"),
    [
        (
            False,
            True,
            False,
            Outcome.STATE_APPLIED,
            "state applied, row possibly lost: an earlier attempt reached the relay",
        ),
        (
            False,
            True,
            True,
            Outcome.STATE_APPLIED,
            "state applied, row possibly lost: an earlier attempt reached the relay",
        ),
        (False, False, True, Outcome.KNOWN, "the relay already had the start of this job: "),
        (False, False, False, Outcome.REFUSED, "HTTP 400"),
        (True, True, False, Outcome.REFUSED, "HTTP 400"),
        (True, False, True, Outcome.REFUSED, "HTTP 400"),
    ],
)
def test_a_refused_step_was_applied_before_where_that_can_be(
    body: str, *, nightly: bool, doubtful: bool, begins: bool, outcome: Outcome, said: str
) -> None:
    told = answer(400, body, nightly=nightly, doubtful=doubtful, begins=begins)
    assert told.outcome is outcome
    assert told.detail.startswith(said)


@pytest.mark.parametrize("begins", [True, False])
@pytest.mark.parametrize(
    "body",
    [
        "missing name",
        "",
        "[]",
        "{}",
        '{"detail": "callback rejected: no matching dispatch record"}',
        '{"detail": "unknown callback status: \'invalid state transition\'"}',
        '{"error": "workflow.job_name: is wrong (seen: \\"invalid state transition\\")"}',
        '{"detail": ["callback rejected: invalid state transition"]}',
        '{"other": "invalid state transition"}',
    ],
)
def test_a_400_that_is_of_the_report_is_a_refusal_even_after_a_fault(body: str, begins: bool) -> None:
    for doubtful in (True, False):
        told = answer(400, body, nightly=False, doubtful=doubtful, begins=begins)
        assert told.outcome is Outcome.REFUSED


@pytest.mark.parametrize(
    ("status", "of_a_nightly"),
    [
        (400, Outcome.REFUSED),
        (401, Outcome.RETRY),
        (403, Outcome.RETRY),
        (413, Outcome.REFUSED),
        (429, Outcome.RATE_LIMITED),
    ],
)
def test_what_hud_refused_behind_the_relay_is_not_about_the_token(status: int, of_a_nightly: Outcome) -> None:
    body = json.dumps({"detail": f"HUD rejected callback: HTTP {status}: no"})
    for begins in (True, False):
        told = answer(status, body, nightly=False, begins=begins)
        # The relay has stored the state, so that the end may follow.
        assert (told.outcome, told.outcome.settled) == (Outcome.STATE_APPLIED, True)
        assert told.detail.startswith("state known, row lost: the relay has the job's state")
    assert answer(status, body).outcome is of_a_nightly
    # Names of the report's, repeated by the relay, are no words of HUD's.
    assert answer(status, f"x: {body}", nightly=False).outcome is not Outcome.STATE_APPLIED


def test_what_settles_and_what_comes_again() -> None:
    assert {one for one in Outcome if one.settled} == {
        Outcome.DELIVERED, Outcome.STATE_APPLIED, Outcome.KNOWN,
    }  # fmt: skip
    assert {one for one in Outcome if one.transient} == {Outcome.RATE_LIMITED, Outcome.RETRY}
