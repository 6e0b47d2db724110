"""What tests ran in: as their own processes said, told where it differs, and never guessed."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from ci.record.environment import RanIn, all_in, as_it_ran, differences, ran_in_of
from ci.record.identity import RunIdentity
from ci.record.journal import Journal
from ci.report.reconcile import reconcile
from test_selection.plan import Group, Plan, Shard, fingerprint
from tests.journal_rows import events_from

ONE, OTHER = (f"registry.example/spyre@sha256:{digit * 64}" for digit in "12")
CARD = RanIn(back_end="torch_spyre 1.2", torch="2.13.0", image=ONE)
PLANNED = RunIdentity(
    run="ci", run_id=1, run_attempt=1, device="spyre", pytorch_version="2.13.0", pytorch_sha="a", stage=1,
    percent=5, started_at=0, back_end="the emulated device", image=ONE,
)  # fmt: skip
TEST = "a.py::A::t"
SHARDS = (Shard(index=0, expected_s=1, groups=(Group(file="a.py", ids=(TEST,)),)),)
PLAN = Plan(fingerprint=fingerprint(SHARDS), bound_s=1, makespan_s=1, binds="balance", shards=SHARDS)


def journal(attempt: int, **said: object) -> Journal:
    start = {"e": "shard_start", "t": 1, "fingerprint": PLAN.fingerprint, "card": "c", **said}
    test = [{"e": "start", "t": 2, "id": TEST}, {"e": "end", "t": 3, "id": TEST, "outcome": "passed"}]
    return Journal(path=Path("x"), shard=0, attempt=attempt, events=events_from([start, *test]))


def test_an_account_holds_what_each_journal_says() -> None:
    row = asdict(CARD)
    assert reconcile(PLAN, [journal(1, **row)]).ran_in == (CARD,)
    assert reconcile(PLAN, [journal(1, **row), journal(2, **row | {"image": OTHER})]).ran_in == (
        CARD,
        replace(CARD, image=OTHER),
    )


def test_a_journal_that_does_not_say_is_something_of_its_own() -> None:
    row = asdict(CARD)
    assert reconcile(PLAN, [journal(1, **row), journal(2)]).ran_in == (RanIn(), CARD)
    assert ran_in_of(5, None, ["x"]) == RanIn()
    headless = Journal(path=Path("x"), shard=0, attempt=1, events=journal(1).events[1:])
    assert reconcile(PLAN, [headless]).ran_in == (RanIn(),)


def test_a_run_without_any_test_ran_in_nothing() -> None:
    assert reconcile(PLAN, []).ran_in == ()


def test_the_report_says_what_tests_ran_in_and_not_what_the_planner_had() -> None:
    told = as_it_ran(PLANNED, [CARD])
    assert (told.back_end, told.image) == ("torch_spyre 1.2", ONE)
    assert differences(PLANNED, [CARD]) == []
    for unclear in ([CARD, RanIn()], [], [RanIn()]):
        assert as_it_ran(PLANNED, unclear) == PLANNED


def test_what_differs_is_said() -> None:
    (both,) = differences(PLANNED, [CARD, replace(CARD, back_end="the emulated device")])
    emulated, real = (f"{name}, torch 2.13.0, {ONE}" for name in ("the emulated device", "torch_spyre 1.2"))
    assert both == f"tests ran in different environments: {emulated}; {real}"
    assert differences(PLANNED, [replace(CARD, image="")]) == [f"planned for {ONE}; ran in no image recorded"]
    assert differences(replace(PLANNED, image=""), [replace(CARD, image="")]) == []


@pytest.mark.parametrize(
    ("image", "found", "holds"),
    [
        (ONE, [CARD], True),
        (f"mirror.example/x@{ONE.rpartition('@')[2]}", [CARD], True),
        (OTHER, [CARD], False),
        (ONE, [], False),
        ("", [replace(CARD, image="")], False),
        (ONE, [CARD, replace(CARD, image="")], False),
    ],
)
def test_an_image_is_proved_by_every_test_or_not_at_all(image: str, found: list[RanIn], holds: bool) -> None:
    assert all_in(image, found) is holds
