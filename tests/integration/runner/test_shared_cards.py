"""Runs on one host share its cards: a card is one run's at a time, and none is lost with its run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import EXIT_INCOMPLETE, FileSystemError
from ci.record.journal import read_journals
from ci.report.reconcile import reconcile
from ci.runner.inventory import Card
from ci.runner.leases import Leases
from ci.runner.pool import CardPool
from test_selection.plan import Plan, write_plan
from tests.journal_rows import rows_of

from .small_runs import Runner, make_plan

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parent.parent.parent.parent
TIMEOUT_S = 240
SLOW = [f"test_retries.py::TestSlow::test_{number}" for number in range(6)]
HOLD = """
import sys, time
from pathlib import Path
from ci.runner.leases import Leases
leases = Leases(Path(sys.argv[1]), run="doomed", clock=time.time)
print(leases.take("emulated:0"), flush=True)
time.sleep(600)
"""


@dataclass(frozen=True, kw_only=True)
class Ended:
    code: int
    text: str


class Host:
    """A host with two cards and two runs of the same plan."""

    def __init__(self, folder: Path, tree: Path) -> None:
        self.folder, self.tree = folder, tree
        self.leases = folder / "leases"
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")},
            "PYTHONPATH": str(ROOT),
            "SPYRE_CI__REPORT__ENDPOINT": "none",
            "SPYRE_CI__RUN__LEASES": str(self.leases),
            # Two cards, and what is told of them is of the emulated device: asked for, and named so.
            "SPYRE_DEVICES": "0,1",
            "SPYRE_CI_EMULATE": "1",
        }

    def start(self, name: str, plan: Plan, *words: str, **environ: str) -> subprocess.Popen[str]:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        write_plan(folder / "plan.json", plan)
        command = [sys.executable, "-m", "ci.cli", "run", "--run-dir", str(folder)]
        return subprocess.Popen(
            [*command, "--plan", str(folder / "plan.json"), "--pytorch-src", str(self.tree), *words],
            cwd=self.folder,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def end(self, process: subprocess.Popen[str]) -> Ended:
        text, _ = process.communicate(timeout=TIMEOUT_S)
        assert "Traceback" not in text
        return Ended(code=process.returncode, text=text)

    def verdicts(self, name: str, plan: Plan) -> set[str]:
        """The verdicts of a run, by whose ids the plan adds up."""
        account = reconcile(plan, read_journals(self.folder / name))
        assert [one.id for one in account.results] == [*plan.ids]
        assert account.holes == ()
        return {one.verdict.value for one in account.results}

    def held(self, name: str) -> list[tuple[str, float, float]]:
        """Each time a run had a card: which, from when, until when."""
        return [
            (rows_of(one.events)[0]["card"], one.events[0].t, one.events[-1].t)
            for one in read_journals(self.folder / name)
        ]


@pytest.fixture
def host(tmp_path: Path, runner: Runner) -> Host:
    return Host(tmp_path, runner.tree)


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_two_runs_at_once_both_finish_and_never_share_a_card(host: Host) -> None:
    plan = make_plan({"test_retries.py": SLOW[:3]}, {"test_retries.py": SLOW[3:]})
    runs = {name: host.start(name, plan, "--cards", "2") for name in ("one", "two")}
    for name, process in runs.items():
        ended = host.end(process)
        assert ended.code == 0, ended.text
        assert host.verdicts(name, plan) == {"passed"}
    both = [(name, *held) for name in runs for held in host.held(name)]
    assert {card for _, card, _, _ in both} == {"emulated:0", "emulated:1"}
    for one, card, begin, end in both:
        for other, other_card, other_begin, other_end in both:
            if one != other and card == other_card:
                assert end <= other_begin or other_end <= begin


def test_a_run_starts_with_the_card_that_is_free_and_takes_the_other_when_it_comes_free(host: Host) -> None:
    other = Leases(host.leases, run="other", clock=time.time)
    assert other.take("emulated:0")
    plan = make_plan({"test_retries.py": SLOW[:5]}, {"test_retries.py": SLOW[5:]})
    process = host.start("one", plan, "--cards", "2", "--static")
    journals = host.folder / "one" / "journal"
    until(lambda: journals.is_dir() and any('"e":"start"' in one.read_text() for one in journals.iterdir()))
    assert {card for card, _, _ in host.held("one")} == {"emulated:1"}
    other.release("emulated:0")
    ended = host.end(process)
    assert ended.code == 0, ended.text
    assert {card for card, _, _ in host.held("one")} == {"emulated:0", "emulated:1"}


def test_a_run_that_waits_says_for_whom_and_gives_up_in_its_time(host: Host) -> None:
    other = Leases(host.leases, run="other", clock=time.time)
    for card in ("emulated:0", "emulated:1"):
        assert other.take(card)
    plan = make_plan({"test_retries.py": SLOW[:1]})
    ended = host.end(host.start("one", plan, SPYRE_CI__RUN__LEASE_TIMEOUT_S="2"))
    assert ended.code == EXIT_INCOMPLETE
    assert f"waiting for a card: emulated:0 is in use by run other (process {os.getpid()} of " in ended.text
    assert host.verdicts("one", plan) == {"not_run"}


def test_a_holder_that_is_killed_frees_its_card(host: Host) -> None:
    command = [sys.executable, "-c", HOLD, str(host.leases)]
    with subprocess.Popen(command, env=host.environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        mine = Leases(host.leases, run="mine", clock=time.time)
        assert not mine.take("emulated:0")
        assert "run doomed" in str(mine.holder("emulated:0"))
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=TIMEOUT_S)
        assert mine.take("emulated:0")


def test_a_card_whose_supervisor_was_killed_is_free_once_its_worker_has_ended(host: Host) -> None:
    process = host.start("one", make_plan({"test_retries.py": SLOW[:1]}), "--cards", "1")
    journals = host.folder / "one" / "journal"
    until(lambda: journals.is_dir() and any('"e":"start"' in one.read_text() for one in journals.iterdir()))
    (card, _, _), *_ = host.held("one")
    (journal,) = read_journals(host.folder / "one")
    worker = rows_of(journal.events)[0]["pid"]
    os.kill(worker, signal.SIGSTOP)
    process.kill()
    assert host.end(process).code == -signal.SIGKILL
    mine = Leases(host.leases, run="mine", clock=time.time)
    assert not mine.take(card)
    os.kill(worker, signal.SIGCONT)
    until(lambda: mine.take(card))


def lost(folder: Path) -> None:
    """The folder of leases is not to be had any more."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.touch()


def test_trouble_with_leases_ends_no_run_that_works(runner: Runner, tmp_path: Path) -> None:
    said: list[str] = []
    folder = tmp_path / "leases"
    assert Leases(folder, run="other", clock=time.time).take("cpu:1")
    plan = make_plan({"test_retries.py": SLOW[:2]}, {"test_retries.py": SLOW[2:4]})

    def listen(_: int, event: Mapping[str, Any]) -> None:
        if event.get("e") == "start" and folder.is_dir():
            lost(folder)

    runner.run(plan, pool=cpu_pool(folder, say=said.append), lease_timeout_s=30, listen=listen)
    assert set(runner.outcomes().values()) == {"passed"}
    assert sum("no more cards for now: " in line for line in said) == 1


def test_what_trouble_with_leases_leaves_undone_says_so(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUN_NOTES", str(tmp_path))
    folder = tmp_path / "leases"
    plan = make_plan({"test_retries.py": ["test_retries.py::TestRetries::test_always_fails"]})

    def listen(_: int, event: Mapping[str, Any]) -> None:
        if event.get("e") == "start":
            lost(folder)

    pool = cpu_pool(folder, wanted=1)
    runner.run(plan, pool=pool, device="spyre", retries=1, lease_timeout_s=30, listen=listen)
    (found,) = reconcile(plan, read_journals(runner.run_dir)).results
    assert (found.verdict.value, found.attempts) == ("failed", 1)
    assert "not run again: there is no other card" in found.message
    assert "leases of cards cannot be kept here: " in found.message


def test_a_run_that_gets_no_card_for_trouble_with_leases_ends_with_it(runner: Runner, tmp_path: Path) -> None:
    pool = cpu_pool(tmp_path / "leases")
    lost(tmp_path / "leases")
    with pytest.raises(FileSystemError, match=r"run\.leases"):
        runner.run(make_plan({"test_retries.py": SLOW[:1]}), pool=pool, lease_timeout_s=30)


def test_a_folder_of_leases_that_is_deleted_is_made_again(runner: Runner, tmp_path: Path) -> None:
    folder = tmp_path / "leases"
    tried: list[bool] = []

    def listen(_: int, event: Mapping[str, Any]) -> None:
        if (event.get("e"), event.get("id")) == ("start", SLOW[0]):
            shutil.rmtree(folder)
        if (event.get("e"), event.get("id")) == ("end", SLOW[-1]):
            tried.append(Leases(folder, run="new", clock=time.time).take("cpu:0"))

    runner.run(make_plan({"test_retries.py": SLOW}), pool=cpu_pool(folder), listen=listen)
    assert set(runner.outcomes().values()) == {"passed"}
    assert tried == [False]


def cpu_pool(folder: Path, *, wanted: int | None = None, say: Callable[[str], None] = print) -> CardPool:
    return CardPool(
        [Card(name=f"cpu:{number}", environment={}) for number in range(2)],
        wanted=wanted,
        leases=Leases(folder, run="r", clock=time.time),
        run="r",
        clock=time.time,
        say=say,
    )


def wide(plan: Plan) -> Plan:
    return replace(plan, shards=tuple(replace(shard, cards=2) for shard in plan.shards))


def test_runs_that_need_both_cards_have_their_turn_while_narrow_ones_come_and_go(host: Host) -> None:
    """Both cards are free at once only where those who came later let them be."""
    other = Leases(host.leases, run="other", clock=time.time)
    assert other.take("emulated:0")
    plans = {
        "one": wide(make_plan({"test_retries.py": SLOW[:1]})),
        "two": wide(make_plan({"test_retries.py": SLOW[1:2]})),
        "narrow": make_plan({"test_retries.py": SLOW[2:3]}),
        "late": make_plan({"test_retries.py": SLOW[3:4]}),
    }
    started = {}
    for number, (name, plan) in enumerate(plans.items()):
        started[name] = host.start(name, plan, "--cards", "2" if plan.shards[0].cards > 1 else "1")
        # The second card is free all the time.
        until(partial(lambda many: len(list(host.leases.glob("*.ticket"))) == many, number + 1))
    other.release("emulated:0")
    for name, process in started.items():
        ended = host.end(process)
        assert ended.code == 0, ended.text
        assert host.verdicts(name, plans[name]) == {"passed"}
    times = {name: host.held(name) for name in plans}
    assert [card for name in ("one", "two") for card, _, _ in times[name]] == ["emulated:0+emulated:1"] * 2
    begins = {name: min(begin for _, begin, _ in held) for name, held in times.items()}
    ends = {name: max(end for _, _, end in held) for name, held in times.items()}
    assert begins["two"] >= ends["one"]
    assert min(begins["narrow"], begins["late"]) >= ends["two"]
    assert list(host.leases.glob("*.ticket")) == []


def test_a_run_that_waits_first_and_is_killed_holds_nobody_up(host: Host) -> None:
    other = Leases(host.leases, run="other", clock=time.time)
    assert other.take("emulated:0")
    killed = host.start("one", wide(make_plan({"test_retries.py": SLOW[:1]})), "--cards", "2")
    until(lambda: len(list(host.leases.glob("*.ticket"))) == 1)
    killed.kill()
    assert host.end(killed).code == -signal.SIGKILL
    ended = host.end(host.start("two", make_plan({"test_retries.py": SLOW[1:2]}), "--cards", "1"))
    assert ended.code == 0, ended.text
