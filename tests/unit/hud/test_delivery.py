from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.config.report_model import RELAY_TIMEOUT_S, Report
from ci.hud.answers import Answer, Outcome
from ci.hud.client import Target
from ci.hud.delivery import MAX_ATTEMPTS, Effects, FlushReport, flush, pause_s, send_command
from ci.hud.outbox import Outbox
from ci.hud.send import delivery_of

URL = "https://hud.example/github/callback"


def said(outcome: Outcome, status: int | None = None, **more: Any) -> Answer:
    return Answer(outcome=outcome, status=status, detail=f"said {outcome}", **more)


OK = said(Outcome.DELIVERED, 200)
DOWN = said(Outcome.RETRY, 503, doubtful=True)
LIMITED = said(Outcome.RATE_LIMITED, 429)
LOST = said(Outcome.STATE_APPLIED, 400)


@dataclass
class World:
    """An outbox, a clock that only sleeping moves, and an endpoint that gives answers, the last for ever."""

    folder: Path
    now: float = 1000.0
    slept: list[float] = field(default_factory=list)
    sent: list[tuple[str, float, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.outbox = Outbox(self.folder, lambda: self.now)

    @property
    def waiting(self) -> list[str]:
        return [report.identity for report in self.outbox.pending()]

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def flush(self, *answers: Answer, budget_s: float = 10_000, url: str = URL) -> FlushReport:
        given_answers = itertools.chain(answers, itertools.repeat(answers[-1]))

        def send(payload: Mapping[str, Any], target: Target, *, doubtful: bool) -> Answer:
            assert target.url == url
            self.sent.append((payload["workflow"]["job_name"], self.now, doubtful))
            return next(given_answers)

        effects = Effects(clock=lambda: self.now, sleep=self.sleep, rng=lambda: 0.5)
        target = Target(url=url, repository="o/r", send=send)
        return flush(self.outbox, target, effects, budget_s=budget_s)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def run(world: World, payload: dict[str, Any]) -> Callable[..., FlushReport]:
    """Flush nightly reports, by the names of their jobs."""

    def go(*answers: Answer, jobs: int = 1, budget_s: float = 10_000) -> FlushReport:
        for job in range(jobs):
            workflow = {**payload["workflow"], "job_name": f"job-{job}"}
            world.outbox.enqueue(f"job-{job}", {**payload, "workflow": workflow})
        return world.flush(*answers, budget_s=budget_s)

    return go


Run = Callable[..., FlushReport]


@pytest.mark.parametrize("jobs", [3, 130])
def test_reports_arrive_once_and_in_order_and_are_not_slowed_down(world: World, run: Run, jobs: int) -> None:
    names = tuple(f"job-{number}" for number in range(jobs))
    assert run(OK, jobs=jobs) == FlushReport(delivered=names)
    assert tuple(job for job, _, _ in world.sent) == names
    assert (world.waiting, world.slept) == ([], [])


@pytest.mark.parametrize(
    ("answer", "budget_s", "attempts", "outcome", "reason"),
    [
        (DOWN, 10_000, MAX_ATTEMPTS, "retry", "said retry"),
        (DOWN, 4, 2, "retry", "said retry"),
        (OK, 0, 0, "retry", "the time for reporting is over (report.budget_s)"),
        (LIMITED, 50, 1, "rate_limited", "said rate_limited"),
        (said(Outcome.UNAUTHORIZED, 401), 50, 1, "unauthorized", "said unauthorized"),
        (said(Outcome.IGNORED, 200), 50, 1, "ignored", "said ignored"),
    ],
)
def test_an_answer_that_meets_every_report_alike_leaves_all_with_the_reason(
    world: World, run: Run, *, answer: Answer, budget_s: float, attempts: int, outcome: str, reason: str
) -> None:
    report = run(answer, jobs=3, budget_s=budget_s)
    assert (len(world.sent), sum(world.slept) < budget_s or not attempts) == (attempts, True)
    assert [(left.identity, left.outcome, left.reason) for left in report.left] == [
        (f"job-{number}", outcome, reason) for number in range(3)
    ]
    assert report.left[0].remedy.endswith(f", then `spyre-ci hud send {world.folder}`")
    assert world.waiting == ["job-0", "job-1", "job-2"]


def test_a_refused_report_is_not_sent_again_and_holds_up_none(world: World, run: Run) -> None:
    report = run(said(Outcome.REFUSED, 400), OK, jobs=2)
    assert [job for job, _, _ in world.sent] == ["job-0", "job-1"]
    assert (report.delivered, report.left[0].outcome, world.waiting) == (("job-1",), "refused", ["job-0"])


@pytest.fixture
def begun(payload: dict[str, Any]) -> dict[str, Any]:
    """A pull request's begin."""
    workflow = {**payload["workflow"], "status": "in_progress", "conclusion": None, "completed_at": None}
    echoed = {
        "pull_request": {"number": 7, "head": {"sha": "a" * 40}},
        "repository": {"full_name": "pytorch/pytorch"},
    }
    return {"event_type": "pull_request", "delivery_id": "d-1", "payload": echoed, "workflow": workflow}


@pytest.fixture
def ended(begun: dict[str, Any], payload: dict[str, Any]) -> dict[str, Any]:
    """Its end."""
    return {**begun, "workflow": payload["workflow"]}


@pytest.mark.parametrize(
    ("answers", "outcome", "warnings"),
    [
        ([said(Outcome.KNOWN, 400), OK], "delivered", ("begin: said known",)),
        ([LOST, OK], "delivered", ("begin: said state_applied",)),
        ([OK, LOST], "row_lost", ("end: said state_applied",)),
        ([LOST, LOST], "row_lost", ("begin: said state_applied", "end: said state_applied")),
    ],
)
def test_an_end_follows_a_begin_that_is_known_and_a_lost_row_has_an_outcome_of_its_own(
    world: World,
    begun: dict[str, Any],
    ended: dict[str, Any],
    *,
    answers: list[Answer],
    outcome: str,
    warnings: tuple[str, ...],
) -> None:
    world.outbox.enqueue("begin", begun)
    world.outbox.enqueue("end", ended)
    report = world.flush(*answers)
    assert (report.delivered, report.left, report.warnings) == (("begin", "end"), (), warnings)
    delivery = delivery_of(report, endpoint="x")
    assert (delivery.outcome, delivery.done) == (outcome, outcome == "delivered")
    assert delivery.reason == ("" if delivery.done else "state known, row lost: HUD may have no row of end")


def test_doubt_is_remembered_from_attempt_to_attempt_and_from_flush_to_flush(world: World, run: Run) -> None:
    run(DOWN, LIMITED, LIMITED, budget_s=30)
    run(OK)
    assert [doubtful for _, _, doubtful in world.sent] == [False, True, True]


def test_a_flush_beside_another_sends_nothing(world: World, run: Run) -> None:
    with Outbox(world.folder, lambda: 0).sending():
        report = run(OK, budget_s=0.1)
    assert world.sent == []
    assert [(left.outcome, left.reason) for left in report.left] == [
        ("busy", "another process is sending these reports")
    ]


def test_a_token_sent_in_clear_is_warned_of(world: World) -> None:
    warning = "the endpoint is plain http: anyone on the network path can read the token"
    assert world.flush(OK, url="http://hud.example/github/callback").warnings == (warning,)


def test_a_relay_over_its_limit_is_waited_for_twice_within_the_default_budget(world: World, run: Run) -> None:
    budget_s = Report().budget_s
    longest = [pause_s(LIMITED, attempt, 0.99) for attempt in (1, 2)]
    assert min(longest) > 60
    assert sum(longest) + RELAY_TIMEOUT_S < budget_s
    report = run(LIMITED, LIMITED, OK, jobs=2, budget_s=budget_s)
    assert (len(world.slept), min(world.slept) >= 60) == (2, True)
    assert (report.delivered, report.left) == (("job-0", "job-1"), ())


@given(st.integers(1, 20), st.floats(0, 1, exclude_max=True), st.floats(0, 1000) | st.none())
def test_pauses_keep_to_the_contract(attempt: int, chance: float, retry_after: float | None) -> None:
    asked = max(60, retry_after or 0)
    limited = said(Outcome.RATE_LIMITED, 429, retry_after_s=retry_after)
    assert asked <= pause_s(limited, attempt, chance) <= asked + 30
    assert 1 <= pause_s(DOWN, attempt, chance) <= 60


def test_a_run_folder_with_blanks_is_quoted_in_the_remedy() -> None:
    assert send_command(Path("my runs/1")) == "spyre-ci hud send 'my runs/1'"
