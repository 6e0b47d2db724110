"""Two hosts, each a `spyre-ci run` of a shard of one plan, claim each other's pieces; one account."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ci.record.identity import RunIdentity, write_identity
from ci.record.journal import Journal, read_journals
from ci.record.verdict import Verdict
from ci.report.reconcile import Account, reconcile
from ci.runner.claims.joining import ClaimSettings
from test_selection.durations import Durations, write_durations
from test_selection.plan import Plan, write_plan
from tests.journal_rows import rows_of

from .conftest import RedisServer
from .small_runs import STAND_IN, Runner, make_plan

pytestmark = pytest.mark.gate

ROOT = Path(__file__).parent.parent.parent.parent
LEASE_S = 4.0
TIMEOUT_S = 180.0
LONG = [f"test_long.py::TestLong::test_{number}" for number in range(16)]
SHORT = ["test_long.py::TestShort::test_0"]
OUTCOMES = "test_outcomes.py::TestOutcomes::test_"
DEVICES = "test_devices.py::TestFirst::test_plain"
SOURCE = """
import os
import time
import unittest


class TestLong(unittest.TestCase):
    pass


class TestShort(unittest.TestCase):
    def test_0(self):
        pass


def wait(self):
    while not os.path.exists(os.environ["RUN_GO"]):
        time.sleep(0.05)
    time.sleep(0.7)


for number in range(16):
    setattr(TestLong, f"test_{number}", wait)
"""


class Hosts:
    """Hosts that run shards of one plan, each with a run folder of its own."""

    def __init__(self, folder: Path, tree: Path, share: str) -> None:
        self.folder, self.tree, self.share = folder, tree, share
        (tree / "test" / "test_long.py").write_text(SOURCE, encoding="utf-8")
        self.plan: Plan = make_plan({"test_long.py": LONG}, {"test_long.py": SHORT})
        self.given = folder / "given"
        self.given.mkdir()
        write_plan(self.given / "plan.json", self.plan)
        write_durations(self.given / "durations.json.gz", Durations(tests=dict.fromkeys(LONG, 0.7)))
        identity = RunIdentity(
            run="nightly", run_id=1, run_attempt=1, device="cpu", pytorch_version="", pytorch_sha="x",
            stage=None, percent=100, started_at=0.0,
        )  # fmt: skip
        write_identity(self.given, identity)
        self.go = folder / "go"
        self.go.touch()
        self.run_dirs: dict[int, Path] = {}
        self.started: list[subprocess.Popen[str]] = []

    def run_dir(self, shard: int) -> Path:
        return self.run_dirs.get(shard, self.folder / f"host-{shard}")

    def start(
        self, shard: int, *words: str, environ: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        arguments = (
            "run", "--run-dir", str(self.run_dir(shard)), "--plan", str(self.given / "plan.json"),
            "--shard", str(shard), "--pytorch-src", str(self.tree), "--device", "cpu", "--cards", "1", *words,
        )  # fmt: skip
        return self.call(shard, *arguments, environ=environ)

    def call(
        self, shard: int, *words: str, environ: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        allocator = self.folder / f"allocator-{shard}"
        allocator.mkdir(exist_ok=True)
        kept = {name: one for name, one in os.environ.items() if not name.startswith(("GITHUB_", "JENKINS"))}
        started = subprocess.Popen(
            [sys.executable, "-m", "ci.cli", *words],
            cwd=allocator,
            env={
                **kept,
                "PYTHONPATH": f"{ROOT}{os.pathsep}{STAND_IN}",
                "RUN_GO": str(self.go),
                "SPYRE_CI__RUN__SHARE": self.share,
                "SPYRE_CI__RUN__SHARE_LEASE_S": str(LEASE_S),
                **(environ or {}),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.started.append(started)
        return started

    def wait(self, *processes: subprocess.Popen[str]) -> list[tuple[int, str]]:
        ended = []
        for one in processes:
            said, _ = one.communicate(timeout=TIMEOUT_S)
            assert "Traceback" not in said, said
            ended.append((one.returncode, said))
        return ended

    def journals(self) -> list[Journal]:
        found = []
        for shard in (0, 1):
            if (self.run_dir(shard) / "journal").is_dir():
                found += read_journals(self.run_dir(shard))
        return found

    def account(self) -> Account:
        return reconcile(self.plan, self.journals())

    def until(self, said: Callable[[Journal], bool]) -> None:
        """Wait until a journal says so."""
        deadline = time.monotonic() + TIMEOUT_S
        while not any(said(journal) for journal in self.journals()):
            assert time.monotonic() < deadline
            assert any(one.poll() is None for one in self.started)
            time.sleep(0.05)

    def end(self) -> None:
        for one in self.started:
            if one.poll() is None:
                one.kill()
            one.wait()
            if one.stdout is not None:
                one.stdout.close()


def events(journal: Journal, kind: str) -> list[dict[str, Any]]:
    return [event for event in rows_of(journal.events) if event["e"] == kind]


def ended(journal: Journal, number: int) -> bool:
    return len(events(journal, "end")) >= number


def waits(journal: Journal) -> bool:
    """Whether one of the long tests has begun."""
    return any(event["id"] in LONG for event in events(journal, "start"))


def waits_at(shard: int, journal: Journal) -> bool:
    """Whether one of the long tests has begun at a shard."""
    return journal.shard == shard and waits(journal)


@pytest.fixture(params=["folder", "redis"])
def hosts(request: pytest.FixtureRequest, tmp_path: Path, tree: Path) -> Iterator[Hosts]:
    share = str(tmp_path / "share")
    if request.param == "redis":
        share = request.getfixturevalue("redis_url")
    made = Hosts(tmp_path, tree, share)
    yield made
    made.end()


def whole(account: Account) -> None:
    """Every planned test has one verdict, and nothing else is told of."""
    assert sum(account.counts.values()) == len(LONG) + len(SHORT)
    assert account.unplanned == ()


def test_the_host_with_the_short_shard_helps_and_both_make_one_account(hosts: Hosts) -> None:
    # However long a busy machine takes to start them, nobody is through before both have begun.
    hosts.go.unlink()
    first, second = hosts.start(0), hosts.start(1)
    for shard in (0, 1):
        hosts.until(partial(waits_at, shard))
    hosts.go.touch()
    for code, said in hosts.wait(first, second):
        assert code == 0, said
    account = hosts.account()
    whole(account)
    assert account.counts[Verdict.PASSED] == len(LONG) + len(SHORT)
    assert {result.attempts for result in account.results} == {1}
    ran = Counter(journal.shard for journal in hosts.journals() for _ in events(journal, "end"))
    assert ran[1] > len(SHORT)
    stolen = [
        one for journal in hosts.journals() for one in events(journal, "piece") if one["why"] == "stolen"
    ]
    assert 0 in {one["of"] for one in stolen}


def test_what_a_killed_host_had_claimed_is_run_by_another_and_marked(hosts: Hosts) -> None:
    killed, other = hosts.start(0), hosts.start(1)
    hosts.until(lambda journal: journal.shard == 0 and ended(journal, 2))
    # The whole of it, workers too: a machine that loses its power.
    os.killpg(killed.pid, signal.SIGKILL)
    for journal in hosts.journals():
        for event in events(journal, "shard_start"):
            if journal.shard == 0:
                os.killpg(event["pid"], signal.SIGKILL)
    ((code, said),) = hosts.wait(other)
    assert code == 0, said
    account = hosts.account()
    whole(account)
    assert account.counts[Verdict.PASSED] == len(LONG) + len(SHORT)
    again = [one for journal in hosts.journals() for one in events(journal, "piece") if one["attempt"] > 1]
    assert again
    tries = Counter(event["id"] for journal in hosts.journals() for event in events(journal, "start"))
    marked = {
        event["id"]
        for journal in hosts.journals()
        for event in events(journal, "start")
        if event.get("try", 1) > 1
    }
    assert {name for name, count in tries.items() if count > 1} <= marked
    assert {result.id for result in account.results if result.attempts > 1} <= marked


def test_an_interrupted_host_leaves_its_pieces_to_the_others_at_once(hosts: Hosts) -> None:
    leaving, other = hosts.start(0), hosts.start(1, environ={"SPYRE_CI__RUN__SHARE_LEASE_S": "600"})
    hosts.until(lambda journal: journal.shard == 0 and ended(journal, 2))
    leaving.send_signal(signal.SIGTERM)
    (first, _), (second, said) = hosts.wait(leaving, other)
    assert (first, second) == (130, 0), said
    account = hosts.account()
    whole(account)
    assert account.counts[Verdict.PASSED] == len(LONG) + len(SHORT)


def test_a_redis_that_goes_ends_what_was_claimed_and_the_rest_is_told_not_run(
    tmp_path: Path, tree: Path, redis_server: RedisServer
) -> None:
    hosts = Hosts(tmp_path, tree, redis_server.url)
    try:
        first, second = hosts.start(0), hosts.start(1)
        hosts.until(lambda journal: journal.shard == 0 and ended(journal, 2))
        redis_server.stop()
        (code, said), _ = hosts.wait(first, second)
    finally:
        hosts.end()
    assert code == 3
    assert "the share is lost, what was claimed goes on" in said
    account = hosts.account()
    whole(account)
    assert account.counts[Verdict.PASSED] >= 2
    assert account.counts[Verdict.PASSED] + account.counts[Verdict.NOT_RUN] == len(LONG) + len(SHORT)
    missing = [result for result in account.results if result.verdict is Verdict.NOT_RUN]
    assert missing
    assert all("not claimed: the Redis does not answer" in result.message for result in missing)
    assert {result.attempts for result in account.results} <= {0, 1}


@pytest.mark.nightly
def test_one_run_folder_serves_two_hosts_and_one_that_comes_late_has_nothing_to_do(
    tmp_path: Path, tree: Path
) -> None:
    hosts = Hosts(tmp_path, tree, str(tmp_path / "share"))
    hosts.run_dirs = dict.fromkeys((0, 1), hosts.given)
    try:
        ((first, _),) = hosts.wait(hosts.start(1))
        ((second, said),) = hosts.wait(hosts.start(0))
        ((third, _),) = hosts.wait(hosts.start(0, "--static"))
    finally:
        hosts.end()
    assert (first, second, third) == (0, 0, 0), said
    journals = read_journals(hosts.given)
    assert [(journal.shard, journal.attempt) for journal in journals] == [(0, 1), (0, 2), (1, 1)]
    assert [len(events(journal, "end")) for journal in journals] == [0, len(LONG), len(LONG) + 1]
    whole(reconcile(hosts.plan, journals))


def test_a_host_that_cuts_the_plan_otherwise_is_refused_before_it_runs_anything(
    tmp_path: Path, tree: Path
) -> None:
    hosts = Hosts(tmp_path, tree, str(tmp_path / "share"))
    other = ClaimSettings(
        where=hosts.share, run="nightly-1", lease_s=9.0, clock=time.monotonic, say=lambda _: None
    )
    other.join(hosts.plan.fingerprint, [], 1.0)
    try:
        ((code, said),) = hosts.wait(hosts.start(0))
    finally:
        hosts.end()
    assert code == 2
    assert "cut the same plan into other pieces" in said
    assert hosts.journals() == []


def test_a_shard_whose_host_never_comes_is_run_by_who_is_there_and_its_failures_are_told(
    runner: Runner, tmp_path: Path
) -> None:
    plan = make_plan(
        {"test_outcomes.py": [f"{OUTCOMES}passes"]},
        {"test_outcomes.py": [f"{OUTCOMES}fails", f"{OUTCOMES}skips"], "test_devices.py": [DEVICES]},
    )
    claims = ClaimSettings(
        where=str(tmp_path / "share"), run="r", lease_s=5.0, clock=time.monotonic, say=lambda _: None
    )
    runner.run(plan, shards=[0], claims=claims, device="spyre", static=False, retries=1)
    assert runner.outcomes() == {
        f"{OUTCOMES}passes": "passed",
        f"{OUTCOMES}fails": "failed",
        f"{OUTCOMES}skips": "skipped",
        DEVICES: "passed",
    }
    assert [event["ids"] for event in runner.named("no_retry")] == [[f"{OUTCOMES}fails"]]
    assert {journal.shard for journal in read_journals(runner.run_dir)} == {0}


def test_a_file_that_cannot_be_set_up_is_given_up_once_and_nobody_waits_for_it(
    runner: Runner, tmp_path: Path
) -> None:
    broken = runner.tree / "test" / "test_broken_here.py"
    broken.write_text("raise RuntimeError('no')\n", encoding="utf-8")
    ids = [[f"test_broken_here.py::TestA::test_{shard}{number}" for number in range(3)] for shard in (0, 1)]
    plan = make_plan({"test_broken_here.py": ids[0]}, {"test_broken_here.py": ids[1]})
    share = str(tmp_path / "share")
    told: list[str] = []
    for shard in (0, 1):
        claims = ClaimSettings(where=share, run="r", lease_s=2.0, clock=time.monotonic, say=lambda _: None)
        runner.run(plan, shards=[shard], claims=claims, static=False)
    for event in runner.named("not_run"):
        told += event["ids"]
    assert sorted(told) == sorted([*ids[0], *ids[1]])


@pytest.mark.nightly
def test_a_host_that_is_resumed_joins_again_and_leaves_alone_what_others_did(
    tmp_path: Path, tree: Path
) -> None:
    hosts = Hosts(tmp_path, tree, str(tmp_path / "share"))
    shutil.copytree(hosts.given, hosts.run_dir(0))
    try:
        killed = hosts.start(0)
        hosts.until(lambda journal: journal.shard == 0 and ended(journal, 3))
        os.killpg(killed.pid, signal.SIGKILL)
        killed.communicate()
        # The other comes too late to be cut off: it helps until it, too, is ended.
        other = hosts.start(1)
        hosts.until(lambda journal: journal.shard == 1 and ended(journal, 3))
        other.send_signal(signal.SIGTERM)
        hosts.wait(other)
        ((code, said),) = hosts.wait(
            hosts.call(0, "run", "--resume", str(hosts.run_dir(0)), "--pytorch-src", str(tree))
        )
    finally:
        hosts.end()
    assert code == 0, said
    account = hosts.account()
    whole(account)
    # Of its own shard nothing is left; the other host's is for that one to finish.
    assert {one.verdict for one in account.results if one.id in LONG} == {Verdict.PASSED}
    starts = [event for journal in hosts.journals() for event in events(journal, "start")]
    again = Counter(event["id"] for event in starts)
    marked = {event["id"] for event in starts if event.get("try", 1) > 1}
    assert {name for name, count in again.items() if count > 1} <= marked


def test_what_a_killed_worker_cost_a_host_that_is_killed_too_is_run_when_it_is_resumed(
    tmp_path: Path, tree: Path
) -> None:
    hosts = Hosts(tmp_path, tree, str(tmp_path / "share"))
    shutil.copytree(hosts.given, hosts.run_dir(0))
    try:
        killed = hosts.start(0, environ={"SPYRE_CI__RUN__RETRIES": "0"})
        hosts.until(lambda journal: ended(journal, 2))
        (first,) = hosts.journals()
        (begun,) = events(first, "shard_start")
        os.kill(begun["pid"], signal.SIGKILL)
        # So much later all that the lost worker had has been told.
        hosts.until(lambda journal: journal.attempt == 2 and ended(journal, 5))
        (lost,) = [event["id"] for journal in hosts.journals() for event in events(journal, "worker_lost")]
        os.killpg(killed.pid, signal.SIGKILL)
        killed.communicate()
        ((code, said),) = hosts.wait(
            hosts.call(0, "run", "--resume", str(hosts.run_dir(0)), "--pytorch-src", str(tree))
        )
    finally:
        hosts.end()
    assert lost in LONG
    account = hosts.account()
    whole(account)
    assert {one.verdict for one in account.results if one.id in LONG} == {Verdict.PASSED}, said
    # Every test has passed, and the run has lost a worker all the same.
    assert (code, "exit 3: 1 worker lost" in said) == (3, True), said
    starts = [event for journal in hosts.journals() for event in events(journal, "start")]
    tries = Counter(event["id"] for event in starts)
    assert {name for name, count in tries.items() if count > 1} <= {
        event["id"] for event in starts if event.get("try", 1) > 1
    }


@pytest.mark.nightly
def test_what_a_host_gave_up_is_run_when_it_is_resumed_with_the_file_mended(
    tmp_path: Path, tree: Path
) -> None:
    hosts = Hosts(tmp_path, tree, str(tmp_path / "share"))
    shutil.copytree(hosts.given, hosts.run_dir(0))
    file = tree / "test" / "test_long.py"
    file.write_text("import nothing_of_that_name\n", encoding="utf-8")
    try:
        ((before, _),) = hosts.wait(hosts.start(0))
        file.write_text(SOURCE, encoding="utf-8")
        ((after, said),) = hosts.wait(
            hosts.call(0, "run", "--resume", str(hosts.run_dir(0)), "--pytorch-src", str(tree))
        )
    finally:
        hosts.end()
    assert (before, after) == (3, 0), said
    assert {one.verdict for one in hosts.account().results if one.id in LONG} == {Verdict.PASSED}
