"""Lanes: when they are due, what a CI is told of it, and a worker that begins each time just once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml

from tests.conftest import Golden
from tests.oracle.conftest import Desk, Said, make_desk

SESSION = {"session": {"name": "tests"}}
WAIT_S = 60

# When lanes are due.

DAILY = {
    "night": {"cron": "30 2 * * *"},
    "weekdays": {"cron": "15 4 * * 1-5"},
    "half-hours": {"cron": "*/30 * * * *"},
    "five-a-day": {"times_a_day": 5, "first": "00:17"},
}
# Around the days that leave an hour out or have it twice, a weekend, and the end of a year.
MOMENTS = {
    "Europe/Berlin": [
        "2026-03-28T12:00", "2026-03-29T01:45", "2026-03-29T03:05", "2026-03-30T02:30",
        "2026-04-03T04:16", "2026-10-25T00:00", "2026-10-25T02:45+02:00", "2026-10-25T03:00",
        "2026-12-31T23:59",
    ],
    "America/New_York": [
        "2026-03-07T23:00", "2026-03-08T03:10", "2026-11-01T01:50-04:00", "2026-11-02T04:15",
    ],
}  # fmt: skip


def on_the_clock(day: datetime, minute: int, zone: ZoneInfo) -> datetime:
    """A minute of a day as its clock shows it first; where the clock leaves it out, the next one it shows."""
    naive = datetime(day.year, day.month, day.day) + timedelta(minutes=minute)  # noqa: DTZ001  # a wall clock
    while True:
        real = naive.replace(tzinfo=zone).astimezone(UTC)
        if real.astimezone(zone).replace(tzinfo=None) == naive:
            return real
        naive += timedelta(minutes=1)


def due(lane: str, moment: datetime, zone: ZoneInfo) -> datetime:
    """When a lane is due after a moment, by the hands of a clock on the wall."""
    if lane == "half-hours":
        return moment + timedelta(minutes=30 - moment.minute % 30)
    minutes = {"night": [150], "weekdays": [255], "five-a-day": [17 + 288 * one for one in range(5)]}[lane]
    local = moment.astimezone(zone)
    days = [local + timedelta(days=one) for one in range(5)]
    wanted = [day for day in days if lane != "weekdays" or day.weekday() < 5]
    times = [on_the_clock(day, minute, zone) for day in wanted for minute in minutes]
    return min(one for one in times if one > moment)


@pytest.mark.gate
@pytest.mark.parametrize("zone", MOMENTS)
def test_what_runs_next_is_by_the_clock_on_the_wall(tmp_path: Path, zone: str) -> None:
    lanes = {name: {"run": SESSION, "cadence": cadence} for name, cadence in DAILY.items()}
    lanes["after"] = {"run": SESSION, "cadence": {"after_end": {"min": 6, "max": 8}}}
    lanes["idle"] = {"run": SESSION, "cadence": {"cron": "1 1 * * *"}, "enabled": False}
    lanes["later"] = {"run": SESSION, "cadence": {"cron": "1 1 * * *"}, "in_stages": [3]}
    settings = {"stage": 1, "lane_worker": {"time_zone": zone}, "lanes": lanes}
    desk = make_desk(tmp_path, yaml.safe_dump(settings))
    for text in MOMENTS[zone]:
        given = datetime.fromisoformat(text)
        moment = (given if given.tzinfo else given.replace(tzinfo=ZoneInfo(zone))).astimezone(UTC)
        told = desk.call("lanes", "status", "--at", text, "--json").json["lanes"]
        times = {one["lane"]: one["time"] and datetime.fromisoformat(one["time"]) for one in told}
        wanted = {name: due(name, moment, ZoneInfo(zone)) for name in DAILY}
        # One that has not run yet is due at once; one that does not run in this stage, never.
        assert times == {**wanted, "after": moment, "idle": None, "later": None}, text
    assert not (desk.folder / ".spyre-ci").exists(), "asking changes nothing"


# What CIs are told.

OF_CIS = """\
stage: 1
lane_worker: {time_zone: Europe/Berlin}
lanes:
  night:
    run: {pytorch: {stage: 1}}
    cadence: {cron: 17 2 * * *}
    begun_by: {github: nightly.yml}
  often:
    run: {pytorch: {stage: 1}}
    cadence: {times_a_day: 7, first: "00:40"}
    begun_by: {github: often.yml}
  later:
    in_stages: [3]
    run: {pytorch: {stage: 3}}
    cadence: {cron: "5 1,13 * * *"}
    begun_by: {github: nightly.yml}
  jobs:
    run: {pytorch: {stage: 1}}
    cadence: {times_a_day: 2, first: "06:30"}
    begun_by: {jenkins: spyre/nightly}
  jobs-later:
    in_stages: [3, 4]
    run: {pytorch: {stage: 3}}
    cadence: {cron: 0 4 * * sun}
    begun_by: {jenkins: spyre/weekly}
  here:
    run: {pytorch: {stage: 1}}
    cadence: {after_end: {min: 6, max: 8}}
"""


def test_a_ci_is_told_the_same_times_and_held_to_them(tmp_path: Path, golden: Golden) -> None:
    desk = make_desk(tmp_path, OF_CIS)
    told = desk.call("lanes", "export", "github").out
    golden("oracle/lanes/github.yaml", told)
    triggers = desk.call("lanes", "export", "jenkins").out
    golden("oracle/lanes/jenkins.json", triggers)
    desk.write("triggers.json", triggers)
    nightly, often = (f"on:\n{part}jobs: {{}}\n" for part in told.split("on:\n")[1:])
    desk.write("nightly.yml", nightly.partition("# .github")[0] + "jobs: {}\n")
    desk.write("often.yml", often)
    desk.call("lanes", "export", "github", "--check", ".")
    desk.call("lanes", "export", "jenkins", "--check", "triggers.json")
    desk.write("spyre-ci.yaml", OF_CIS.replace("17 2", "18 2").replace("06:30", "06:31"))
    said = desk.call("lanes", "export", "github", "--check", ".", code=1)
    assert '"17 2 * * *"' in said.err
    assert '"18 2 * * *"' in said.err
    desk.call("lanes", "export", "jenkins", "--check", "triggers.json", code=1)


def test_a_cadence_that_no_cron_can_say_is_refused(tmp_path: Path) -> None:
    after = OF_CIS.replace("cadence: {cron: 17 2 * * *}", "cadence: {after_end: {min: 6, max: 8}}")
    desk = make_desk(tmp_path, after)
    assert "lanes.night.cadence" in desk.call("lanes", "export", "github", code=2).err


# The worker.

# Stands for nox: each session does what its name says, once it has written down that it began.
NOX = """#!{python} -IS
import json, os, signal, sys, time
session = sys.argv[sys.argv.index("-s") + 1]
line = json.dumps({{"session": session, "pid": os.getpid(), "environ": dict(os.environ)}})
ledger = os.open({ledger!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(ledger, line.encode() + b"\\n")
name, _, number = session.partition("-")
if name == "code":
    sys.exit(int(number))
elif name == "until":
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    while not os.path.exists({ledger!r} + ".go"):
        time.sleep(0.02)
elif name == "dead":
    os.kill(os.getpid(), signal.SIGKILL)
"""
ONCE = {"after_end": {"min": 300, "max": 300, "unit": "days"}}
SOON = {"most": 2, "first_s": 0.2, "factor": 1, "jitter": 0}


def lane(session: str, **given: Any) -> dict[str, Any]:
    return {"run": {"session": {"name": session}}, "cadence": ONCE, **given}


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A folder with lanes, and what really began."""

    desk: Desk
    ledger: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Begin a worker that the end of the test ends, whatever becomes of the test."""
        self.started.append(self.desk.start("lanes", "run", *words))
        return self.started[-1]

    def lanes(self, worker: dict[str, Any] | None = None, /, **lanes: dict[str, Any]) -> None:
        settings = {"lanes": lanes, "lane_worker": {"poll_s": 0.1, "ending_s": 5, **(worker or {})}}
        self.desk.write("spyre-ci.yaml", yaml.safe_dump(settings))

    def once(self, *words: str, code: int = 0) -> Said:
        return self.desk.call("lanes", "run", "--once", *words, code=code)

    def begun(self) -> list[dict[str, Any]]:
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return [json.loads(line) for line in lines]

    def sessions(self) -> list[str]:
        return [one["session"] for one in self.begun()]

    def runs(self) -> list[dict[str, Any]]:
        """What `status` tells, the oldest first."""
        return list(reversed(self.desk.call("lanes", "status", "--json").json["runs"]))

    def standings(self) -> list[str]:
        """How each attempt of the only run ended."""
        (run,) = self.runs()
        return [one["status"] for one in run["attempts"]]

    def go(self) -> None:
        Path(f"{self.ledger}.go").touch()


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    if not Path("/proc/self/environ").exists():
        pytest.skip("what a run leaves is found on Linux alone")
    desk, ledger, folder = make_desk(tmp_path), tmp_path / "ledger", tmp_path / "bin"
    folder.mkdir()
    (folder / "nox").write_text(NOX.format(python=sys.executable, ledger=str(ledger)))
    (folder / "nox").chmod(0o755)
    path = {"PATH": f"{folder}:{os.environ['PATH']}"}
    made = Worker(desk=replace(desk, environ=desk.environ | path), ledger=ledger)
    yield made
    for process in made.started:
        if process.poll() is None:
            kill(process)
    for one in made.begun():
        with suppress(ProcessLookupError):
            os.killpg(one["pid"], signal.SIGKILL)


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate(timeout=WAIT_S)


@pytest.mark.gate
def test_each_lane_runs_once_is_tried_again_where_it_gave_no_answer_and_is_told(worker: Worker) -> None:
    worker.lanes(
        {"at_once": 1},
        good=lane("code-0", secrets=["TOKEN"]),
        red=lane("code-1"),
        lost=lane("dead", retries=SOON),
    )
    assert "TOKEN" in worker.once(code=2).err, "a secret that is missing is told before anything begins"
    assert worker.sessions() == []
    worker.desk.write(".env", "TOKEN=hush-hush\n").chmod(0o600)
    said = worker.once(code=3)
    assert Counter(worker.sessions()) == {"code-0": 1, "code-1": 1, "dead": 3}
    assert "hush-hush" not in said.out + said.err
    assert {one["session"] for one in worker.begun() if one["environ"].get("TOKEN")} == {"code-0"}
    runs = {one["lane"]: one for one in worker.runs()}
    assert {name: one["status"] for name, one in runs.items()} == {
        "good": "passed", "red": "failed", "lost": "incomplete",
    }  # fmt: skip
    assert [one["exit_code"] for one in runs["lost"]["attempts"]] == [-9] * 3
    assert [one["exit_code"] for one in runs["red"]["attempts"]] == [1], "a failed test is an answer"
    shown = worker.desk.call("lanes", "status", "--lane", "lost").out
    assert shown.count("SIGKILL") == 3
    # What was begun is not begun again, unless somebody asks for it.
    worker.once()
    assert len(worker.sessions()) == 5
    worker.once("--lane", "red", "--now", code=1)
    assert worker.sessions()[5:] == ["code-1"]


@pytest.mark.gate
def test_a_run_outlives_a_worker_that_is_killed_and_the_next_one_learns_how_it_ended(worker: Worker) -> None:
    worker.lanes(long=lane("until"))
    first = worker.start()
    until(worker.begun)
    # A second one says who works, and begins nothing.
    assert str(first.pid) in worker.desk.call("lanes", "run", code=3).err
    kill(first)
    second = worker.start("--once")
    assert second.stdout is not None
    until(lambda: "was running" in (second.stdout.readline() if second.stdout else ""))
    worker.go()
    second.communicate(timeout=WAIT_S)
    assert second.returncode == 0
    assert (worker.sessions(), worker.standings()) == (["until"], ["passed"])


@pytest.mark.gate
def test_a_run_whose_machine_was_restarted_is_tried_again_once(worker: Worker) -> None:
    worker.lanes(long=lane("until", retries=SOON))
    first = worker.start()
    until(worker.begun)
    kill(first)
    # The run, and whatever watches it: everything that belongs to its session's parent.
    pid = worker.begun()[0]["pid"]
    status = Path(f"/proc/{pid}/status").read_text()
    parent = int(next(line for line in status.splitlines() if line.startswith("PPid")).split()[1])
    for number in (parent, pid):
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    worker.go()
    worker.once()
    assert (worker.sessions(), worker.standings()) == (["until", "until"], ["gone", "passed"])


@pytest.mark.gate
def test_a_worker_that_is_told_to_end_hands_its_run_back(worker: Worker) -> None:
    worker.lanes(long=lane("until", retries={"most": 0}))
    first = worker.start()
    until(worker.begun)
    first.terminate()
    out, _ = first.communicate(timeout=WAIT_S)
    assert first.returncode == 130, out
    worker.go()
    worker.once()
    assert (worker.sessions(), worker.standings()) == (["until", "until"], ["cancelled", "passed"])


@pytest.mark.gate
def test_a_run_that_takes_too_long_is_ended_at_its_limit(worker: Worker) -> None:
    worker.lanes(long=lane("until", time_limit_s=1, retries={"most": 0}))
    worker.once(code=3)
    assert (worker.sessions(), worker.standings()) == (["until"], ["timed out"])
