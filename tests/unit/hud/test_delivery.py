from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.config.report_model import RELAY_TIMEOUT_S, Report
from ci.hud import delivery as delivery_module
from ci.hud.answers import Answer, Outcome
from ci.hud.client import Target
from ci.hud.delivery import MAX_ATTEMPTS, Effects, FlushReport, flush, pause_s, send_command
from ci.hud.outbox import Outbox
from ci.hud.send import delivery_of

TARGET = Target(url="https://hud.example/github/callback", repository="o/r", token=lambda: "t")


def said(outcome: Outcome, status: int | None = None, **more: Any) -> Answer:
    return Answer(outcome=outcome, status=status, detail=f"said {outcome}", **more)


OK = said(Outcome.DELIVERED, 200)
DOWN = said(Outcome.RETRY, 503, doubtful=True)
LIMITED = said(Outcome.RATE_LIMITED, 429)


@dataclass
class World:
    """A clock that only sleeping moves, and an endpoint that gives the listed answers, the last for ever."""

    answers: Iterable[Answer] = (OK,)
    now: float = 1000.0
    chance: float = 0.5
    slept: list[float] = field(default_factory=list)
    sent: list[tuple[str, float, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        answers = list(self.answers)
        self._answers = itertools.chain(answers, itertools.repeat(answers[-1]))

    def post(self, payload: Mapping[str, Any], target: Target, *, doubtful: bool) -> Answer:
        assert target is TARGET
        self.sent.append((payload["workflow"]["job_name"], self.now, doubtful))
        return next(self._answers)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    @property
    def effects(self) -> Effects:
        return Effects(clock=lambda: self.now, sleep=self.sleep, rng=lambda: self.chance)


Run = Callable[..., tuple[World, FlushReport]]


@pytest.fixture
def run(tmp_path: Path, payload: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Run:
    def go(*answers: Answer, jobs: int = 1, budget_s: float = 10_000) -> tuple[World, FlushReport]:
        world = World(answers)
        monkeypatch.setattr(delivery_module, "post", world.post)
        outbox = Outbox(tmp_path, lambda: world.now)
        for job in range(jobs):
            workflow = {**payload["workflow"], "job_name": f"job-{job}"}
            outbox.enqueue(f"job-{job}", {**payload, "workflow": workflow})
        return world, flush(tmp_path, TARGET, world.effects, budget_s=budget_s)

    return go


def waiting(folder: Path) -> list[str]:
    return [report.identity for report in Outbox(folder, lambda: 0).pending()]


def test_reports_arrive_once_and_in_order(run: Run, tmp_path: Path) -> None:
    world, report = run(OK, jobs=3)
    assert [job for job, _, _ in world.sent] == ["job-0", "job-1", "job-2"]
    assert report == FlushReport(delivered=("job-0", "job-1", "job-2"))
    assert waiting(tmp_path) == []
    assert world.slept == []


def test_a_server_that_stays_down_leaves_the_report_with_the_reason(run: Run, tmp_path: Path) -> None:
    world, report = run(DOWN, jobs=2)
    assert len(world.sent) == MAX_ATTEMPTS
    assert [(left.identity, left.outcome, left.reason) for left in report.left] == [
        ("job-0", "retry", "said retry"),
        ("job-1", "retry", "said retry"),
    ]
    assert report.left[0].remedy == (f"wait until the endpoint is back, then `spyre-ci hud send {tmp_path}`")
    assert waiting(tmp_path) == ["job-0", "job-1"]


def test_it_ends_within_its_budget(run: Run) -> None:
    world, report = run(DOWN, budget_s=4)
    assert sum(world.slept) < 4
    assert report.left[0].reason == "said retry"


def test_a_budget_of_nothing_sends_nothing(run: Run, tmp_path: Path) -> None:
    world, report = run(OK, budget_s=0)
    assert world.sent == []
    assert report.left[0].reason == "the time for reporting was used up"
    assert waiting(tmp_path) == ["job-0"]


def test_a_rate_limit_longer_than_the_budget_is_left(run: Run, tmp_path: Path) -> None:
    world, report = run(LIMITED, budget_s=50)
    assert world.slept == []
    assert (report.left[0].outcome, report.left[0].reason) == ("rate_limited", "said rate_limited")
    assert waiting(tmp_path) == ["job-0"]


@pytest.mark.parametrize("outcome", [Outcome.REFUSED])
def test_a_refused_report_is_not_sent_again_and_holds_up_none(
    run: Run, tmp_path: Path, outcome: Outcome
) -> None:
    world, report = run(said(outcome, 400), OK, jobs=2)
    assert [job for job, _, _ in world.sent] == ["job-0", "job-1"]
    assert report.delivered == ("job-1",)
    assert report.left[0].outcome == outcome
    assert waiting(tmp_path) == ["job-0"]


@pytest.mark.parametrize("outcome", [Outcome.UNAUTHORIZED, Outcome.IGNORED])
def test_an_answer_that_meets_every_report_alike_ends_the_flush(run: Run, outcome: Outcome) -> None:
    world, report = run(said(outcome, 401), jobs=3)
    assert len(world.sent) == 1
    assert [left.outcome for left in report.left] == [outcome] * 3


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


def test_an_end_follows_a_begin_that_somebody_else_told(
    tmp_path: Path, begun: dict[str, Any], ended: dict[str, Any]
) -> None:
    outbox, world = Outbox(tmp_path, lambda: 0), World([said(Outcome.KNOWN, 400), OK])
    outbox.enqueue("begin", begun)
    outbox.enqueue("end", ended)
    report = flush(tmp_path, TARGET, world.effects, budget_s=100, send=world.post)
    assert (report.delivered, report.left) == (("begin", "end"), ())
    assert report.warnings == ("begin: said known",)


@pytest.mark.parametrize("url", ["https://ci.example/2", "no address"])
def test_a_begin_that_was_told_before_is_not_sent_again_and_holds_no_end(
    tmp_path: Path, begun: dict[str, Any], ended: dict[str, Any], url: str
) -> None:
    outbox, world = Outbox(tmp_path, lambda: 0), World()
    outbox.enqueue("begin", begun)
    assert flush(tmp_path, TARGET, world.effects, budget_s=100, send=world.post).delivered == ("begin",)
    # Put there by what went before, when such a begin was refused for ever.
    outbox.enqueue("begin", {**begun, "workflow": {**begun["workflow"], "url": url}})
    outbox.record(outbox.pending()[0], said(Outcome.REFUSED, 400))
    outbox.enqueue("end", ended)
    report = flush(tmp_path, TARGET, world.effects, budget_s=100, send=world.post, again=False)
    assert (report.delivered, report.left, report.warnings) == (("begin", "end"), (), ())
    assert len(world.sent) == 2
    assert waiting(tmp_path) == []


def test_doubt_is_remembered_from_attempt_to_attempt_and_from_flush_to_flush(run: Run) -> None:
    world, _ = run(DOWN, LIMITED, LIMITED, budget_s=30)
    assert [doubtful for _, _, doubtful in world.sent] == [False, True]
    world, _ = run(OK)
    assert [doubtful for _, _, doubtful in world.sent] == [True]


def test_a_flush_beside_another_sends_nothing(run: Run, tmp_path: Path) -> None:
    with Outbox(tmp_path, lambda: 0).sending():
        world, report = run(OK)
    assert world.sent == []
    assert [(left.outcome, left.reason) for left in report.left] == [
        ("busy", "another process is sending these reports")
    ]


def test_a_token_sent_in_clear_is_warned_of(tmp_path: Path) -> None:
    target = Target(url="http://hud.example/github/callback", repository="o/r", token=lambda: "t")
    report = flush(tmp_path, target, World().effects, budget_s=1)
    assert report.warnings == ("the endpoint is plain http: whoever listens on the way can read the token",)


def test_a_relay_over_its_limit_is_waited_for_twice_within_the_default_budget(run: Run) -> None:
    budget_s = Report().budget_s
    longest = [pause_s(LIMITED, attempt, 0.99) for attempt in (1, 2)]
    assert min(longest) > 60
    assert sum(longest) + RELAY_TIMEOUT_S < budget_s
    world, report = run(LIMITED, LIMITED, OK, jobs=2, budget_s=budget_s)
    assert (len(world.slept), min(world.slept) >= 60) == (2, True)
    assert (report.delivered, report.left) == (("job-0", "job-1"), ())


def test_a_hundred_reports_are_not_slowed_down(run: Run) -> None:
    world, report = run(OK, jobs=130)
    assert (len(report.delivered), world.slept) == (130, [])


def test_a_row_that_is_lost_has_an_outcome_of_its_own(
    tmp_path: Path, begun: dict[str, Any], ended: dict[str, Any]
) -> None:
    lost = said(Outcome.STATE_APPLIED, 400)
    for answers, wanted in (([lost, OK], "delivered"), ([OK, lost], "row_lost"), ([lost, lost], "row_lost")):
        folder = tmp_path / str(answers.index(lost)) / wanted
        outbox, world = Outbox(folder, lambda: 0), World(answers)
        outbox.enqueue("begin", begun)
        outbox.enqueue("end", ended)
        report = flush(folder, TARGET, world.effects, budget_s=100, send=world.post)
        delivery = delivery_of(report, endpoint="x")
        assert (delivery.outcome, delivery.done) == (wanted, wanted == "delivered")
        assert report.delivered == ("begin", "end")
        assert delivery.reason == (
            "" if delivery.done else "state known, row lost: HUD may have nothing of end"
        )


@given(st.integers(1, 20), st.floats(0, 1, exclude_max=True), st.floats(0, 1000) | st.none())
def test_pauses_keep_to_the_contract(attempt: int, chance: float, retry_after: float | None) -> None:
    limited = said(Outcome.RATE_LIMITED, 429, retry_after_s=retry_after)
    down = said(Outcome.RETRY, 503, retry_after_s=retry_after)
    assert pause_s(limited, attempt, chance) >= max(60, retry_after or 0)
    assert pause_s(limited, attempt, chance) <= max(60, retry_after or 0) + 30
    assert max(1, retry_after or 0) <= pause_s(down, attempt, chance) <= max(60, retry_after or 0)


def test_a_run_folder_with_blanks_is_quoted_in_the_remedy() -> None:
    assert send_command(Path("my runs/1")) == "spyre-ci hud send 'my runs/1'"
