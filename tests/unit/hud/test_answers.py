from __future__ import annotations

import pytest

from ci.hud.answers import Answer, Outcome, classify

TRANSITION = '{"error": "callback rejected: invalid state transition delivery_id=1"}'


def answer(
    status: int, body: str = "", *, nightly: bool = True, doubtful: bool = False, begins: bool = False
) -> Answer:
    return classify(status, body, retry_after=None, nightly=nightly, doubtful=doubtful, begins=begins)


TABLE = [
    (200, '{"ok": true, "status": "completed"}', Outcome.DELIVERED),
    (200, '{"ok": true, "status": "in_progress"}', Outcome.DELIVERED),
    (200, '{"ok": true, "status": "ignored"}', Outcome.IGNORED),
    (200, "<html>please log in</html>", Outcome.REFUSED),
    (200, "[]", Outcome.REFUSED),
    (200, "[" * 100_000, Outcome.REFUSED),
    (204, "", Outcome.REFUSED),
    (302, "", Outcome.REFUSED),
    (400, "missing run_id", Outcome.REFUSED),
    (401, "", Outcome.UNAUTHORIZED),
    (403, "", Outcome.UNAUTHORIZED),
    (404, "", Outcome.REFUSED),
    (405, "", Outcome.REFUSED),
    (408, "", Outcome.RETRY),
    (413, "", Outcome.REFUSED),
    (429, "", Outcome.RATE_LIMITED),
    (500, "", Outcome.RETRY),
    (502, "", Outcome.RETRY),
    (503, "", Outcome.RETRY),
    (504, "", Outcome.RETRY),
]


@pytest.mark.parametrize(("status", "body", "outcome"), TABLE)
def test_each_answer_means_what_the_contract_says(status: int, body: str, outcome: Outcome) -> None:
    assert answer(status, body).outcome is outcome


def test_a_refused_transition_after_a_fault_means_the_state_was_applied() -> None:
    told = answer(400, TRANSITION, nightly=False, doubtful=True)
    assert told.outcome is Outcome.STATE_APPLIED
    assert told.detail.startswith("state applied, row possibly lost (HTTP 400: ")
    assert told.outcome.settled


@pytest.mark.parametrize(("nightly", "doubtful"), [(True, True), (False, False)])
def test_a_refused_transition_is_a_refusal_otherwise(nightly: bool, doubtful: bool) -> None:
    assert answer(400, TRANSITION, nightly=nightly, doubtful=doubtful).outcome is Outcome.REFUSED


@pytest.mark.parametrize(
    "body",
    [
        TRANSITION,
        '{"detail": "callback rejected: invalid state transition delivery_id=1 repo=o/r status=in_progress"}',
        "Invalid state transition",
    ],
)
def test_a_begin_that_is_no_step_was_told_before(body: str) -> None:
    told = answer(400, body, nightly=False, begins=True)
    assert told.outcome is Outcome.KNOWN
    assert told.detail.startswith("the relay knew that this job has begun: ")
    assert answer(400, body, nightly=True, begins=True).outcome is Outcome.REFUSED


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
    body = f'{{"detail": "HUD rejected callback: HTTP {status}: no"}}'
    for begins in (True, False):
        told = answer(status, body, nightly=False, begins=begins)
        # The relay has stored the state, so that the end may follow.
        assert (told.outcome, told.doubtful, told.outcome.settled) == (Outcome.STATE_APPLIED, True, True)
        assert told.detail.startswith("state known, row lost: HUD did not take it")
    assert answer(status, body).outcome is of_a_nightly
    # Names of the report's, repeated by the relay, are no words of HUD's.
    assert answer(status, f"x: {body}", nightly=False).outcome is not Outcome.STATE_APPLIED


@pytest.mark.parametrize(("status", "doubtful"), [(500, True), (503, True), (408, True), (429, False)])
def test_a_fault_of_the_server_leaves_doubt(status: int, doubtful: bool) -> None:
    assert answer(status).doubtful is doubtful


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("90", 90.0), (None, None), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("9" * 9, None)],
)
def test_seconds_to_wait_are_read_from_the_answer(header: str | None, seconds: float | None) -> None:
    told = classify(429, "", retry_after=header, nightly=True, doubtful=False)
    assert told.retry_after_s == seconds


def test_a_redirect_is_named_as_one() -> None:
    assert "a redirect, which is not followed with the token" in answer(307, "moved").detail


def test_what_settles_and_what_comes_again() -> None:
    assert {one for one in Outcome if one.settled} == {
        Outcome.DELIVERED,
        Outcome.STATE_APPLIED,
        Outcome.KNOWN,
    }
    assert {one for one in Outcome if one.transient} == {Outcome.RATE_LIMITED, Outcome.RETRY}


def test_a_secret_is_hidden_from_people_and_the_answer_is_read_as_it_came() -> None:
    answer = classify(
        200,
        '{"status": "completed", "token": "t"}',
        retry_after=None,
        nightly=True,
        doubtful=False,
        secret="t",
    )
    assert answer.outcome is Outcome.DELIVERED
    assert '"t"' not in answer.detail
