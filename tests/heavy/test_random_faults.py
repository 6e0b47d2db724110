"""Faults of every kind at random, from a seed: no id is ever lost or counted twice."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from ci.core.errors import EXIT_INTERRUPTED
from ci.record.identity import RunIdentity, write_identity
from ci.record.verdict import Verdict
from ci.report.results import read_results
from ci.steps.folder import RunFolder, write_source
from test_selection.durations import Durations, write_durations
from test_selection.plan import write_plan
from test_selection.selection import Selection, write_selection
from tests.integration.runner.conftest import RedisServer, redis_server
from tests.integration.runner.small_runs import make_plan
from tests.peak import peak_of

__all__ = ["redis_server"]  # a fixture of the runner's own tests
ROOT = Path(__file__).parent.parent.parent
FAULTS = ROOT / "tests" / "integration" / "runner" / "faults"
FILE = "test_random_faults.py"
PREFIX = f"{FILE}::TestRandom::test_"
# The gate runs the first, a night a few, `nox -s soak` all of them; `SPYRE_CI_FAULT_SEEDS=200:300` others.
FIRST, _, LAST = os.environ.get("SPYRE_CI_FAULT_SEEDS", "0:50").partition(":")
MARKS = {0: [pytest.mark.gate]} | {seed: [pytest.mark.soak] for seed in range(8, 50)}
SEEDS = [pytest.param(seed, marks=MARKS.get(seed, [])) for seed in range(int(FIRST), int(LAST))]
# A run holds torch in each of its processes, and of what tests print and journals tell only what it needs.
MOST_BYTES = 1 << 30
# Seventeen tests, each three times, on a card that hangs: 14 s a time with its set-up and the card's check.
TIMEOUT_S = 900
LOOK_S = 0.2
# What becomes of a test where nobody disturbs it; all others pass.
ENDS = {
    "abort": Verdict.FAILED,
    "exit_zero": Verdict.FAILED,
    "fails": Verdict.FAILED,
    "fails_once": Verdict.FLAKY,
    "killed": Verdict.FAILED,
    "loops": Verdict.FAILED,
    "segfault": Verdict.FAILED,
    "skips": Verdict.SKIPPED,
}
HARMLESS = (
    "changes_folder", "closes_its_output", "leaves_a_daemon", "leaves_a_process", "leaves_special_files",
    "says_half_a_line",
)  # fmt: skip
COSTLY = ("kills_its_worker", "terminates_its_worker")
SOUND = tuple(f"sound_{number:02}" for number in range(20))
DISTURBANCES = (
    "nothing", "worker", "supervisor", "interrupt", "terminate", "card", "cards", "workers", "claims",
)  # fmt: skip
DAMAGES = ("a journal", "journals", "logs", "plan.json", "selection.json", "run-settings.json", "durations")
# More than select(2) can wait for.
DESCRIPTORS = 1100
WITH_DESCRIPTORS = f"""
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
for _ in range({DESCRIPTORS}):
    os.set_inheritable(os.dup(0), True)
os.execv(sys.executable, [sys.executable, "-m", "ci.cli", *sys.argv[1:]])
"""


@dataclass(slots=True, kw_only=True)
class Day:
    """One random run: what is planned, on how many cards, and who disturbs it when."""

    seed: int
    names: tuple[str, ...]
    shards: tuple[tuple[str, ...], ...]
    cards: int
    static: bool
    retries: int
    disturbance: str
    after_s: float
    fault: str
    damage: str
    inherits: bool

    @property
    def costs_workers(self) -> bool:
        """Whether workers are lost, by a test or by who disturbs the run."""
        return self.disturbance in {"worker", "workers"} or not set(COSTLY).isdisjoint(self.names)

    @property
    def sick(self) -> bool:
        return self.disturbance in {"card", "cards"}

    @property
    def ids(self) -> list[str]:
        return [f"{PREFIX}{name}" for name in self.names]


def draw(seed: int) -> Day:
    rnd = random.Random(seed)  # noqa: S311  # made-up days, no secret
    faults = rnd.sample([*ENDS, *HARMLESS, *COSTLY], rnd.randint(1, 5))
    names = [*faults, *rnd.sample(SOUND, rnd.randint(3, 12))]
    rnd.shuffle(names)
    disturbance = rnd.choice(DISTURBANCES)
    count = 2 if disturbance == "claims" else rnd.randint(1, 3)
    shards = tuple(tuple(names[number::count]) for number in range(count))
    return Day(
        seed=seed,
        names=tuple(name for shard in shards for name in shard),
        shards=shards,
        cards=rnd.randint(1, 3),
        static=rnd.random() < 0.3,
        retries=rnd.randint(0, 2),
        disturbance=disturbance,
        after_s=rnd.uniform(0.5, 12),
        fault=rnd.choice(["open", "fail:3", "hang:5", "abort:4", "mute:6"]),
        damage=rnd.choice(DAMAGES) if rnd.random() < 0.3 else "",
        inherits=rnd.random() < 0.2,
    )


@dataclass(slots=True, kw_only=True)
class Site:
    """A run folder with a plan, and the commands that run and resume it."""

    day: Day
    folder: Path
    redis: RedisServer | None = None
    environ: dict[str, str] = field(default_factory=dict)
    code: int = 0
    most_bytes: int = 0

    def __post_init__(self) -> None:
        tree = self.folder / "tree"
        (tree / "test").mkdir(parents=True)
        shutil.copy(FAULTS / FILE, tree / "test" / FILE)
        (self.folder / "notes").mkdir()
        self.run_dir.mkdir()
        day, ids = self.day, self.day.ids
        plan = make_plan(*({FILE: [f"{PREFIX}{name}" for name in shard]} for shard in day.shards))
        write_plan(self.run_dir / "plan.json", plan)
        write_durations(
            self.run_dir / "durations.json.gz", Durations(tests=dict.fromkeys(ids, 1.0), files={FILE: 1.0})
        )
        write_selection(self.run_dir / "selection.json", Selection(stage=None, percent=100, ids=ids))
        identity = RunIdentity(
            run="r", run_id=1, run_attempt=1, device="spyre", pytorch_version="", pytorch_sha="",
            stage=None, percent=100, started_at=time.time(),
        )  # fmt: skip
        write_identity(self.run_dir, identity)
        write_source(RunFolder(path=self.run_dir), where=str(tree), sha="")
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")},
            "PYTHONPATH": str(ROOT),
            "RUN_NOTES": str(self.folder / "notes"),
            "FAULT_DEVICE": "spyre",
            "SPYRE_CI__DEVICE__NAME": "spyre",
            "SPYRE_CI__RUN__CARDS": str(day.cards),
            "SPYRE_CI__RUN__RETRIES": str(day.retries),
            "SPYRE_CI__RUN__STATIC": str(day.static).lower(),
            "SPYRE_CI__RUN__TEST_TIMEOUT_S": "5",
            "SPYRE_CI__RUN__GRACE_S": "2",
            "SPYRE_CI__RUN__PREFLIGHT_TIMEOUT_S": "20",
            "SPYRE_CI__RUN__LEASES": str(self.folder / "leases"),
            "SPYRE_CI__REPORT__ENDPOINT": "none",
        }
        if day.sick:
            cards = day.cards if day.disturbance == "cards" else 1
            self.environ["SPYRE_CI_CARD_FAULTS"] = ",".join(
                f"emulated:{number}={day.fault}" for number in range(cards)
            )
        if self.redis is not None:
            self.environ |= {
                "SPYRE_CI__RUN__SHARE": self.redis.url,
                "SPYRE_CI__RUN__SHARE_LEASE_S": "4",
                "SPYRE_CI__RUN__CARDS": "1",
            }

    @property
    def run_dir(self) -> Path:
        return self.folder / "run"

    @contextlib.contextmanager
    def started(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        how = ["-c", WITH_DESCRIPTORS] if self.day.inherits else ["-m", "ci.cli"]
        with (self.folder / "output").open("a", encoding="utf-8") as stream:
            process = subprocess.Popen(
                [sys.executable, *how, *words],
                cwd=self.folder, env=self.environ, stdin=subprocess.DEVNULL, stdout=stream,
                stderr=subprocess.STDOUT, text=True, start_new_session=True,
            )  # fmt: skip
            try:
                yield process
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def wait(self, process: subprocess.Popen[str], timeout: float) -> int:
        """Wait for a process; note how much memory it, or one that it started, held at most.

        What `wait4` says of that is at least what this process holds, from which it was forked.

        Raises:
            subprocess.TimeoutExpired: it goes on.
        """
        ends = time.monotonic() + timeout
        while True:
            try:
                return process.wait(timeout=max(0, min(LOOK_S, ends - time.monotonic())))
            except subprocess.TimeoutExpired:
                self.most_bytes = max(self.most_bytes, *map(peak_of, family(process.pid)))
                if time.monotonic() >= ends:
                    raise

    def run(self) -> None:
        """Run it, disturbed, resume it where it was cut off, damage its folder, and report it."""
        if self.redis is not None:
            self.run_on_two_hosts(self.redis)
        else:
            self.run_here()
        if self.day.damage:
            self.do_damage()
        with self.started("report", str(self.run_dir)) as process:
            self.code = self.wait(process, TIMEOUT_S)

    def run_here(self) -> None:
        with self.started("run", "--run-dir", str(self.run_dir)) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.wait(process, self.day.after_s)
            self.disturb(process)
            code = self.wait(process, TIMEOUT_S)
        # A command that is terminated before it listens ends by the signal, and has begun nothing.
        if code in (-signal.SIGKILL, -signal.SIGTERM, EXIT_INTERRUPTED):
            with self.started("run", "--resume", str(self.run_dir)) as process:
                self.wait(process, TIMEOUT_S)

    def run_on_two_hosts(self, redis: RedisServer) -> None:
        """Two hosts that take pieces from each other by a Redis, which goes at some time."""
        with contextlib.ExitStack() as stack:
            hosts, folders = [], []
            for shard in range(2):
                folder = self.folder / f"host-{shard}"
                shutil.copytree(self.run_dir, folder)
                folders.append(folder)
                words = ("run", "--run-dir", str(folder), "--shard", str(shard))
                hosts.append(stack.enter_context(self.started(*words)))
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.wait(hosts[0], self.day.after_s)
            redis.stop()
            for host in hosts:
                self.wait(host, TIMEOUT_S)
        for folder in folders:
            # A host that found no Redis says so, and has begun nothing.
            for name in ("journal", "logs") if (folder / "journal").is_dir() else ():
                shutil.copytree(folder / name, self.run_dir / name, dirs_exist_ok=True)

    def do_damage(self) -> None:
        journals = sorted((self.run_dir / "journal").glob("*.jsonl"))
        match self.day.damage:
            case "a journal" if journals:
                journals[0].write_bytes(journals[0].read_bytes()[: -1 - journals[0].stat().st_size // 3])
            case "journals":
                for path in journals:
                    path.unlink()
                    path.mkdir()
            case "logs":
                shutil.rmtree(self.run_dir / "logs", ignore_errors=True)
                (self.run_dir / "logs").touch()
            case "durations":
                (self.run_dir / "durations.json.gz").write_bytes(b"\x1f\x8b\x08")
            case name if (self.run_dir / name).is_file():
                (self.run_dir / name).write_text("{", encoding="utf-8")
            case _:
                pass

    def disturb(self, process: subprocess.Popen[str]) -> None:
        if process.poll() is not None:
            return
        match self.day.disturbance:
            case "worker" | "workers":
                found = workers_of(process.pid)
                for pid in found if self.day.disturbance == "workers" else found[:1]:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            case "supervisor":
                process.kill()
            case "interrupt":
                process.send_signal(signal.SIGINT)
            case "terminate":
                process.terminate()
            case _:
                pass

    @property
    def ran(self) -> dict[str, int]:
        """How often each test was really begun."""
        return {
            path.name.removeprefix("test_"): len(path.read_text(encoding="ascii"))
            for path in (self.folder / "notes").iterdir()
        }


def family(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    with contextlib.suppress(psutil.NoSuchProcess):
        yield from (one.pid for one in psutil.Process(pid).children(recursive=True))


def workers_of(supervisor: int) -> list[int]:
    """The worker processes a supervisor has started."""
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in psutil.Process(supervisor).children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if "ci.runner.worker" in child.cmdline():
                    found.append(child.pid)
    return found


def allowed(day: Day, name: str) -> set[Verdict]:
    """What may have become of a test."""
    end = Verdict.INFRASTRUCTURE if name in COSTLY else ENDS.get(name, Verdict.PASSED)
    found = {end}
    several = day.retries > 0 and day.cards > 1
    cut = day.disturbance != "nothing" or day.costs_workers
    if name == "fails_once":
        # With a card besides the one it failed on it passes; begun before a cut, it had failed already.
        found |= {Verdict.FAILED} if not several or cut else set()
        found |= {Verdict.PASSED} if cut else set()
    if day.costs_workers:
        found |= {Verdict.INFRASTRUCTURE}
        found |= {Verdict.FLAKY} if end is Verdict.PASSED and several else set()
        # A card that costs its workers again and again is given up.
        found |= {Verdict.NOT_RUN} if set(COSTLY) <= set(day.names) or day.disturbance == "workers" else set()
    if day.sick:
        found |= {Verdict.HARDWARE, Verdict.FLAKY, Verdict.FAILED}
        alone = day.cards == 1 or day.disturbance == "cards"
        found |= {Verdict.NOT_RUN, Verdict.INFRASTRUCTURE} if alone else set()
    if day.disturbance == "claims" or "journal" in day.damage:
        found |= {Verdict.NOT_RUN, Verdict.INFRASTRUCTURE}
        found |= {Verdict.FAILED} if end is Verdict.FLAKY else set()
    return found


def expected_code(day: Day, verdicts: Collection[Verdict]) -> set[int]:
    """What a report may end with; a hole that no verdict tells of is a worker lost, or damage."""
    if not {Verdict.HARDWARE, Verdict.INFRASTRUCTURE, Verdict.NOT_RUN}.isdisjoint(verdicts):
        return {3}
    holes = {3} if day.damage or day.costs_workers or day.sick or day.disturbance == "claims" else set()
    return {1 if Verdict.FAILED in verdicts else 0} | holes


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_or_counted_twice(seed: int, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    day = draw(seed)
    redis = request.getfixturevalue("redis_server") if day.disturbance == "claims" else None
    site = Site(day=day, folder=tmp_path, redis=redis)
    site.run()
    output = (tmp_path / "output").read_text(encoding="utf-8")
    assert "Traceback" not in output, (day, output)
    results = read_results(site.run_dir / "results.jsonl.gz")
    # Law 1: by id, each once.
    assert sorted(one.id for one in results) == sorted(day.ids), (day, output)
    told = {one.id.removeprefix(PREFIX): one for one in results}
    wrong = {
        name: (one.verdict.value, one.message)
        for name, one in told.items()
        if one.verdict not in allowed(day, name)
    }
    assert wrong == {}, (day, output)
    counts = Counter(one.verdict for one in results)
    summary = json.loads((site.run_dir / "summary.json").read_text(encoding="utf-8"))
    assert {name: count for name, count in summary["verdicts"].items() if count} == counts
    assert summary["planned"] == len(results)
    assert site.code == summary["exit_code"]
    assert site.code in expected_code(day, counts), (day, output)
    for name, times in {} if "journal" in day.damage else site.ran.items():
        marked = told[name].attempts >= times or "may have run before" in told[name].message
        assert marked, (name, times, told[name], day)
    daemon, left = tmp_path / "daemon", told.get("leaves_a_daemon")
    # A test that did not come to its end may have started none.
    if left and not day.costs_workers and (left.verdict is Verdict.PASSED or daemon.is_file()):
        with pytest.raises(ProcessLookupError):  # whoever ended its worker ended it too
            os.kill(int(daemon.read_text(encoding="ascii")), 0)
    assert 0 < site.most_bytes <= MOST_BYTES
