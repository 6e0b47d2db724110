from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import BadFileError
from ci.hud.checks import check
from ci.hud.making import Ways, ended_of
from ci.hud.payload import RunIdentity

SHARES = {
    "selected": {"count": 11, "of_count": 0.05, "seconds": 22.0, "of_seconds": 0.05},
    "run": {"count": 9, "of_count": 0.04, "seconds": 18.0, "of_seconds": 0.04},
    "passed": {"count": 6, "of_count": 0.02, "seconds": None, "of_seconds": None},
}


def details(identity: RunIdentity, **more: Any) -> dict[str, Any]:
    summary = {
        "identity": identity.model_dump(),
        "run": "r",
        "verdicts": {"passed": 1},
        "exit_code": 0,
        **more,
    }
    body = ended_of(summary, Ways(environ={}), path=Path("s"))
    assert check(body, repository="o/r") == []
    told: dict[str, Any] = body["payload"]["spyre_ci"]
    return told


def test_shares_cards_and_time_to_signal_are_told(identity: RunIdentity) -> None:
    told = details(identity, in_scope=220, in_scope_s=440.0, shares=SHARES, cards=128, first_failure_s=6.25)
    assert {key: told[key] for key in ("cards", "in_scope", "selected", "ran", "passed")} == {
        "cards": 128,
        "in_scope": 220,
        "selected": 11,
        "ran": 9,
        "passed": 6,
    }
    seconds = (
        "in_scope_seconds",
        "selected_seconds",
        "ran_seconds",
        "passed_seconds",
        "first_failure_seconds",
    )
    assert [told[key] for key in seconds] == [440.0, 22.0, 18.0, None, 6.25]


def test_a_summary_without_them_leaves_them_out(identity: RunIdentity) -> None:
    told = details(identity)
    assert all(told[key] is None for key in ("cards", "in_scope", "selected", "first_failure_seconds"))
    # 0 in scope is nobody's count.
    assert details(identity, in_scope=0)["in_scope"] is None


@pytest.mark.parametrize("shares", [[], "x", {"run": 7}, {"run": {}}])
def test_shares_that_are_none_are_refused_or_passed_over(identity: RunIdentity, shares: Any) -> None:
    summary = {
        "identity": identity.model_dump(), "run": "r", "verdicts": {}, "exit_code": 0, "shares": shares,
    }  # fmt: skip
    if not shares:
        assert ended_of(summary, Ways(environ={}), path=Path("s"))
        return
    with pytest.raises(BadFileError):
        ended_of(summary, Ways(environ={}), path=Path("s"))


def test_a_detail_that_does_not_hold_is_named_before_it_is_sent(identity: RunIdentity) -> None:
    summary = {"identity": identity.model_dump(), "run": "r", "verdicts": {}, "exit_code": 0, "cards": -1}
    reasons = check(ended_of(summary, Ways(environ={}), path=Path("s")), repository="o/r")
    assert reasons == ["payload.spyre_ci.cards: Input should be greater than or equal to 0 (seen: -1)"]


def test_an_artifacts_user_and_password_are_not_told(identity: RunIdentity) -> None:
    summary = {"identity": identity.model_dump(), "run": "r", "verdicts": {}, "exit_code": 0}
    environ = {"SPYRE_CI_ARTIFACT_URL": "https://me:hunter2@a.example/r?X-Amz-Signature=1"}
    body = ended_of(summary, Ways(environ=environ), path=Path("s"))
    assert body["workflow"]["artifact_url"] == "https://a.example/r?X-Amz-Signature=1"
