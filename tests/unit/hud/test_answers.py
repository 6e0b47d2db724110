from __future__ import annotations

import json
from typing import Any

import pytest

from ci.hud.answers import Answer, Outcome, Reply, classify

TRANSITION = '{"error": "callback rejected: invalid state transition delivery_id=1"}'


def answer(status: int, body: str = "", headers: Any = None, *, nightly: bool = True, **more: bool) -> Answer:
    reply = Reply(status=status, body=body, headers=headers or {}, token="t0ken")
    return classify(reply, nightly=nightly, **more)


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (200, '{"ok": true, "status": "completed"}', Outcome.DELIVERED),
        (200, '{"ok": true, "status": "in_progress"}', Outcome.DELIVERED),
        (200, '{"ok": true, "status": "ignored"}', Outcome.IGNORED),
        (200, '{"status": ["completed"]}', Outcome.REFUSED),
        (200, "<html>please log in</html>", Outcome.REFUSED),
        (200, "[]", Outcome.REFUSED),
        (200, "[" * 100_000, Outcome.REFUSED),
        *((status, "", Outcome.REFUSED) for status in (204, 302, 400, 404, 405, 413)),
        *((status, "", Outcome.UNAUTHORIZED) for status in (401, 403)),
        (429, "", Outcome.RATE_LIMITED),
        *((status, "", Outcome.RETRY) for status in (408, 500, 502, 503, 504)),
    ],
)
def test_each_answer_means_what_the_contract_says(status: int, body: str, outcome: Outcome) -> None:
    found = answer(status, body)
    # Behind a fault of the server the report may have been taken.
    assert (found.outcome, found.doubtful) == (outcome, outcome is Outcome.RETRY)


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
        (False, True, False, Outcome.STATE_APPLIED, "state applied, row possibly lost (HTTP 400: "),
        (False, True, True, Outcome.STATE_APPLIED, "state applied, row possibly lost (HTTP 400: "),
        (False, False, True, Outcome.KNOWN, "the relay knew that this job has begun: "),
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
        assert told.detail.startswith("state known, row lost: HUD did not take it")
    assert answer(status, body).outcome is of_a_nightly
    # Names of the report's, repeated by the relay, are no words of HUD's.
    assert answer(status, f"x: {body}", nightly=False).outcome is not Outcome.STATE_APPLIED


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("90", 90.0), ("", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("-5", None), ("9" * 9, None)],
)
def test_seconds_to_wait_are_read_from_the_answer(header: str, seconds: float | None) -> None:
    assert answer(429, headers={"retry-after": header}).retry_after_s == seconds


def test_what_people_are_told_of_an_answer() -> None:
    assert "a redirect, which is not followed with the token" in answer(307, "moved").detail
    told = answer(200, '{"status": "completed", "token": "t0ken"}')
    assert (told.outcome, "t0ken" in told.detail) == (Outcome.DELIVERED, False)


def test_what_settles_and_what_comes_again() -> None:
    assert {one for one in Outcome if one.settled} == {
        Outcome.DELIVERED, Outcome.STATE_APPLIED, Outcome.KNOWN,
    }  # fmt: skip
    assert {one for one in Outcome if one.transient} == {Outcome.RATE_LIMITED, Outcome.RETRY}
