"""Faults of every kind at random, from a seed: no id is ever lost or counted twice."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ci.core.errors import EXIT_INTERRUPTED
from ci.record.identity import RunIdentity, write_identity
from ci.record.verdict import Verdict
from ci.report.results import read_results
from ci.steps.folder import RunFolder, write_source
from test_selection.durations import Durations, write_durations
from test_selection.plan import write_plan
from test_selection.selection import Selection, write_selection
from tests.integration.runner.small_runs import make_plan

ROOT = Path(__file__).parent.parent.parent
FAULTS = ROOT / "tests" / "integration" / "runner" / "faults"
FILE = "test_random_faults.py"
PREFIX = f"{FILE}::TestRandom::test_"
# The gate runs the first, a night a few, `nox -s soak` all of them.
MARKS = {0: [pytest.mark.gate]} | {seed: [pytest.mark.soak] for seed in range(8, 50)}
SEEDS = [pytest.param(seed, marks=MARKS.get(seed, [])) for seed in range(50)]
TIMEOUT_S = 240
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
HARMLESS = ("changes_folder", "closes_its_output", "leaves_a_process")
SOUND = tuple(f"sound_{number:02}" for number in range(20))
DISTURBANCES = ("nothing", "worker", "supervisor", "interrupt", "terminate", "card", "workers")


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

    @property
    def ids(self) -> list[str]:
        return [f"{PREFIX}{name}" for name in self.names]


def draw(seed: int) -> Day:
    rnd = random.Random(seed)  # noqa: S311  # made-up days, no secret
    faults = rnd.sample([*ENDS, *HARMLESS], rnd.randint(1, 5))
    names = [*faults, *rnd.sample(SOUND, rnd.randint(3, 12))]
    rnd.shuffle(names)
    count = rnd.randint(1, 3)
    shards = tuple(tuple(names[number::count]) for number in range(count))
    return Day(
        seed=seed,
        names=tuple(name for shard in shards for name in shard),
        shards=shards,
        cards=rnd.randint(1, 3),
        static=rnd.random() < 0.3,
        retries=rnd.randint(0, 2),
        disturbance=rnd.choice(DISTURBANCES),
        after_s=rnd.uniform(0.5, 12),
        fault=rnd.choice(["open", "fail:3", "hang:5", "abort:4", "mute:6"]),
    )


@dataclass(slots=True, kw_only=True)
class Site:
    """A run folder with a plan, and the commands that run and resume it."""

    day: Day
    folder: Path
    environ: dict[str, str] = field(default_factory=dict)

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
            "SPYRE_CI__RUN__TEST_TIMEOUT_S": "8",
            "SPYRE_CI__RUN__LEASES": str(self.folder / "leases"),
            "SPYRE_CI__REPORT__ENDPOINT": "none",
        }
        if day.disturbance == "card":
            self.environ["SPYRE_CI_CARD_FAULTS"] = f"emulated:0={day.fault}"

    @property
    def run_dir(self) -> Path:
        return self.folder / "run"

    @contextlib.contextmanager
    def started(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        with (self.folder / "output").open("a", encoding="utf-8") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", "ci.cli", *words],
                cwd=self.folder, env=self.environ, stdin=subprocess.DEVNULL, stdout=stream,
                stderr=subprocess.STDOUT, text=True, start_new_session=True,
            )  # fmt: skip
            try:
                yield process
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def run(self) -> None:
        """Run it, disturbed, resume it where it was cut off, and report it."""
        with self.started("run", "--run-dir", str(self.run_dir)) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=self.day.after_s)
            self.disturb(process)
            code = process.wait(timeout=TIMEOUT_S)
        if code in (-signal.SIGKILL, EXIT_INTERRUPTED):
            with self.started("run", "--resume", str(self.run_dir)) as process:
                process.wait(timeout=TIMEOUT_S)
        with self.started("report", str(self.run_dir)) as process:
            process.wait(timeout=TIMEOUT_S)

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


def workers_of(supervisor: int) -> list[int]:
    """The worker processes a supervisor has started."""
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text(encoding="ascii").split()
    found = []
    for pid in map(int, children):
        with contextlib.suppress(OSError):
            if b"ci.runner.worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


def allowed(day: Day, name: str) -> set[Verdict]:
    """What may have become of a test."""
    end = ENDS.get(name, Verdict.PASSED)
    found = {end}
    several = day.retries > 0 and day.cards > 1
    if name == "fails_once":
        # With a card besides the one it failed on it passes; begun before a cut, it had failed already.
        found |= {Verdict.FAILED} if not several or day.disturbance != "nothing" else set()
        found |= {Verdict.PASSED} if day.disturbance != "nothing" else set()
    if day.disturbance in {"worker", "workers"}:
        found |= {Verdict.INFRASTRUCTURE}
        found |= {Verdict.FLAKY} if end is Verdict.PASSED and several else set()
    if day.disturbance == "card":
        found |= {Verdict.HARDWARE, Verdict.FLAKY, Verdict.FAILED}
        found |= {Verdict.NOT_RUN, Verdict.INFRASTRUCTURE} if day.cards == 1 else set()
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_or_counted_twice(seed: int, tmp_path: Path) -> None:
    site = Site(day=draw(seed), folder=tmp_path)
    site.run()
    output = (tmp_path / "output").read_text(encoding="utf-8")
    assert "Traceback" not in output, output
    results = read_results(site.run_dir / "results.jsonl.gz")
    # Law 1: by id, each once.
    assert sorted(one.id for one in results) == sorted(site.day.ids), output
    told = {one.id.removeprefix(PREFIX): one for one in results}
    wrong = {
        name: (one.verdict.value, one.message)
        for name, one in told.items()
        if one.verdict not in allowed(site.day, name)
    }
    assert wrong == {}, (site.day, output)
    for name, times in site.ran.items():
        marked = told[name].attempts >= times or "may have run before" in told[name].message
        assert marked, (name, times, told[name], site.day)
