"""Cards that fail in every way the emulated ones know: one card's fault costs no test its verdict."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ci.core.errors import EXIT_INCOMPLETE
from ci.record.journal import read_journals
from ci.record.result import judge
from ci.record.verdict import Verdict
from ci.report.reconcile import Account, reconcile
from ci.runner.health import HealthFiles, Rules
from ci.runner.inventory import EMULATED_VARIABLE, Card
from ci.runner.leases import Leases
from ci.runner.pool import CardPool

from .small_runs import Runner, make_plan

pytestmark = pytest.mark.gate

CARD = "test_card.py::TestCard::test_"
FIRST = [f"{CARD}{name}" for name in ("0", "1", "2", "3", "expected_to_fail", "without_the_card")]
SECOND = [f"{CARD}{name}" for name in ("4", "5", "6", "7")]
GOOD = {Verdict.PASSED, Verdict.XFAILED}
SICK, WELL = "emulated:0", "emulated:1"


class Ward:
    """Two emulated cards, some of them sick."""

    def __init__(self, folder: Path, runner: Runner, environ: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.runner = runner
        self.plan = make_plan({"test_card.py": FIRST}, {"test_card.py": SECOND})
        self.said: list[str] = []
        self._environ = environ
        environ.setenv("CARD_DEVICE", "spyre")

    def sicken(self, faults: str, *, for_good: bool) -> None:
        self._environ.setenv("SPYRE_CI_CARD_FAULTS", faults)
        if for_good:
            state = self.folder / "state"
            state.mkdir()
            self._environ.setenv("SPYRE_CI_CARD_STATE", str(state))

    def pool(self, wanted: int | None = None) -> CardPool:
        leases = self.folder / "leases"
        return CardPool(
            [Card(name=name, environment={EMULATED_VARIABLE: name}) for name in (SICK, WELL)],
            wanted=wanted,
            leases=Leases(leases, run="r", clock=time.time),
            health=HealthFiles(folder=leases, rules=Rules(strikes=2, bench_s=600)),
            run="r",
            clock=time.time,
            say=self.said.append,
        )

    def run(
        self, *, static: bool = True, wanted: int | None = None, preflight_timeout_s: float = 30
    ) -> Account:
        pool = self.pool(wanted)
        self.runner.run(
            self.plan,
            pool=pool,
            device="spyre",
            static=static,
            retries=1,
            preflight_timeout_s=preflight_timeout_s,
            test_timeout_s=5,
        )
        pool.close()
        account = reconcile(self.plan, read_journals(self.runner.run_dir))
        assert {one.id for one in account.results} == {*FIRST, *SECOND}
        assert sum(account.counts.values()) == len(self.plan.ids)
        assert account.holes == ()
        return account

    def lost(self) -> list[str]:
        return [event["card"] for event in self.runner.named("card_lost")]


@pytest.fixture
def ward(tmp_path: Path, runner: Runner, monkeypatch: pytest.MonkeyPatch) -> Ward:
    return Ward(tmp_path, runner, monkeypatch)


def verdicts(account: Account) -> dict[str, Verdict]:
    return {one.id: one.verdict for one in account.results}


def exit_code(account: Account) -> int:
    return judge(account.counts, percent=100).code


def test_cards_that_are_well_are_checked_once_and_run_everything(ward: Ward) -> None:
    account = ward.run()
    assert set(verdicts(account).values()) == GOOD
    checks = ward.runner.named("card_check")
    assert [one["ok"] for one in checks] == [True, True]
    assert ward.said == []


@pytest.mark.parametrize("static", [True, False])
def test_a_card_that_cannot_be_opened_costs_no_test_anything(ward: Ward, static: bool) -> None:
    ward.sicken(f"{SICK}=open", for_good=False)
    account = ward.run(static=static)
    assert set(verdicts(account).values()) == GOOD
    assert exit_code(account) == 0
    assert {one.card for one in account.results} == {WELL}
    assert ward.lost() == [SICK]
    assert any("RAS::PCI::PCIeFailure" in line and "out of use until" in line for line in ward.said)
    # And the next run does not even try it.
    assert [card.name for card in ward.pool().take(2)] == [WELL]


def test_a_card_that_fails_in_the_middle_costs_the_running_test_and_nothing_else(ward: Ward) -> None:
    ward.sicken(f"{SICK}=fail:30", for_good=True)
    account = ward.run()
    found = verdicts(account)
    hit = [one for one in account.results if one.verdict is Verdict.HARDWARE]
    assert len(hit) == 1
    assert "RAS::CBRB::ResponseTimeout" in hit[0].message
    assert "attempt 2: passed" in hit[0].message
    assert hit[0].attempts == 2
    assert {found[name] for name in found if name != hit[0].id} == GOOD
    assert ward.lost() == [SICK]
    assert exit_code(account) == EXIT_INCOMPLETE


def test_a_run_of_one_card_goes_on_with_another_of_the_host(ward: Ward) -> None:
    ward.sicken(f"{SICK}=fail:30", for_good=True)
    account = ward.run(wanted=1)
    (hit,) = [one for one in account.results if one.verdict is Verdict.HARDWARE]
    assert hit.attempts == 2
    assert {one.verdict for one in account.results if one.id != hit.id} == GOOD
    assert ward.lost() == [SICK]


def test_a_card_that_aborts_its_process_is_quoted_and_benched_after_so_often(ward: Ward) -> None:
    ward.sicken(f"{SICK}=abort:20", for_good=False)
    account = ward.run()
    hit = [one for one in account.results if one.verdict is Verdict.HARDWARE]
    assert len(hit) == 2
    assert all(one.attempts == 2 and "died by SIGABRT; card message: ERRR" in one.message for one in hit)
    assert all("RAS::PCI::BusFence" in one.message for one in hit)
    assert {one.verdict for one in account.results if one not in hit} == GOOD
    assert ward.lost() == [SICK]


def test_a_card_that_hangs_and_is_dead_after_it_is_found_out_by_its_check(ward: Ward) -> None:
    ward.sicken(f"{SICK}=hang:25", for_good=True)
    account = ward.run()
    (hit,) = [one for one in account.results if one.verdict is Verdict.HARDWARE]
    assert "took longer than 5 s" in hit.message
    assert "the card failed its check after it" in hit.message
    assert {one.verdict for one in account.results if one.id != hit.id} == GOOD
    assert ward.lost() == [SICK]


def test_a_card_whose_check_cannot_be_ended_is_given_up_at_once(
    ward: Ward, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a process in a driver's uninterruptible sleep; it can be ended here, and is said not to be."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        f"if os.environ.get('SPYRE_CI_CARD') == '{SICK}':\n"
        "    import ci.runner.preflight\n"
        "    ci.runner.preflight.gone = lambda child: False\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(ward.runner, "path", f"{tmp_path}:{ward.runner.path}")
    ward.sicken(f"{SICK}=hang:1", for_good=False)
    account = ward.run(preflight_timeout_s=5)
    assert set(verdicts(account).values()) == GOOD
    assert ward.lost() == [SICK]
    (check,) = [one for one in ward.runner.named("card_check") if not one["ok"]]
    assert check["ended"] is False
    assert any(f"card {SICK} is left out: took longer than 5 s" in line for line in ward.said)


def test_a_card_that_dies_without_a_word_is_checked_after_failures_in_a_row(ward: Ward) -> None:
    ward.sicken(f"{SICK}=mute:15", for_good=True)
    account = ward.run()
    assert ward.lost() == [SICK]
    # Nothing said that these were the card's: they failed once and passed elsewhere.
    assert set(verdicts(account).values()) == {*GOOD, Verdict.FLAKY}


def test_with_all_cards_lost_every_test_has_its_reason(ward: Ward) -> None:
    ward.sicken(f"{SICK}=open,{WELL}=open", for_good=False)
    account = ward.run()
    assert set(verdicts(account).values()) == {Verdict.NOT_RUN}
    assert {one.message.partition(":")[0] for one in account.results} == {"no card was left to run it"}
    assert all(SICK in one.message and WELL in one.message for one in account.results)
    assert sorted(ward.lost()) == [SICK, WELL]
    assert exit_code(account) == EXIT_INCOMPLETE


def test_with_every_card_benched_nothing_starts_and_every_test_has_its_reason(ward: Ward) -> None:
    pool = ward.pool()
    for card in pool.take(2):
        for _ in range(2):
            pool.strike(card, "RAS::PCI::BusFence", certain=True)
    pool.close()
    account = ward.run()
    assert set(verdicts(account).values()) == {Verdict.NOT_RUN}
    assert all("out of use until" in one.message for one in account.results)
    assert ward.runner.named("shard_start") == []


def test_a_run_that_gets_no_card_in_time_says_who_holds_them(ward: Ward) -> None:
    other = ward.pool()
    other.take(2)
    account = ward.run()
    other.close()
    assert set(verdicts(account).values()) == {Verdict.NOT_RUN}
    assert all("emulated:0 is in use by run r (process " in one.message for one in account.results)
