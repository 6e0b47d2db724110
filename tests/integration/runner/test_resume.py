"""A run that was cut off goes on: what had a verdict stays, the rest runs, nothing runs twice unmarked."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ci.record import events
from ci.record.events import parse
from ci.record.identity import RunIdentity, read_identity, write_identity
from ci.record.journal import JournalWriter, read_journal
from ci.record.journal_line import event_of, line_of
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.results import read_results
from ci.runner.orphans import VARIABLE, find_orphans_of_run
from ci.steps.folder import RunFolder, write_source
from test_selection.plan import write_plan
from test_selection.selection import Selection, write_selection
from tests.integration.conftest import Called
from tests.journal_rows import row_of, rows_of

from .small_runs import STAND_IN, make_plan

ROOT = Path(__file__).parent.parent.parent.parent
TIMEOUT_S = 300
WAITS = "test_resume.py::TestWaits::test_"
IDS = [f"{WAITS}{name}" for name in ("a_passes", "b_fails", "c_waits", "d_passes", "e_passes")]
TESTS = """
import os, pathlib, time, unittest

NOTES = pathlib.Path(os.environ["RUN_NOTES"])


class TestWaits(unittest.TestCase):
    def setUp(self):
        with (NOTES / self._testMethodName).open("a") as stream:
            stream.write("x")

    def test_a_passes(self):
        pass

    def test_b_fails(self):
        self.fail("as it should")

    def test_c_waits(self):
        while not (NOTES / "go").exists():
            time.sleep(0.05)

    def test_d_passes(self):
        pass

    def test_e_passes(self):
        pass
"""


class Site:
    """A run folder with a plan, and the command line that runs it."""

    def __init__(self, tree: Path, run_dir: Path, called: Called) -> None:
        self.tree, self.run_dir, self._called = tree, run_dir, called
        self.notes = tree.parent / "notes"
        self.notes.mkdir()
        (tree / "test" / "test_resume.py").write_text(TESTS, encoding="utf-8")
        run_dir.mkdir(parents=True, exist_ok=True)
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")},
            "PYTHONPATH": f"{ROOT}{os.pathsep}{STAND_IN}",
            "RUN_NOTES": str(self.notes),
            "SPYRE_CI__DEVICE__NAME": "cpu",
            "SPYRE_CI__RUN__CARDS": "1",
            "SPYRE_CI__RUN__RETRIES": "0",
            "SPYRE_CI__REPORT__ENDPOINT": "none",
        }
        self.plan(IDS)

    def plan(self, ids: list[str]) -> None:
        write_plan(self.run_dir / "plan.json", make_plan({"test_resume.py": ids}))
        write_selection(self.run_dir / "selection.json", Selection(stage=None, percent=100, ids=ids))
        identity = RunIdentity(
            run=self.run_dir.name, run_id=1, run_attempt=1, device="cpu", pytorch_version="",
            pytorch_sha="", stage=None, percent=100, started_at=time.time(),
        )  # fmt: skip
        write_identity(self.run_dir, identity)
        write_source(RunFolder(path=self.run_dir), where=str(self.tree), sha="")

    def start(self, *words: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*prefix, sys.executable, "-m", "ci.cli", *words],
            cwd=self.tree.parent, env=self.environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def call(self, *words: str) -> tuple[int, str, str]:
        code, out, err = self._called(self.tree.parent, self.environ, *words)
        assert "Traceback" not in out + err
        return code, out, err

    def run(self) -> tuple[int, str, str]:
        return self.call("run", "--run-dir", str(self.run_dir))

    def resume(self) -> tuple[int, str, str]:
        return self.call("run", "--resume", str(self.run_dir))

    def release(self) -> None:
        (self.notes / "go").touch()

    @property
    def ran(self) -> dict[str, int]:
        """How often each test was really run."""
        return {
            f"{WAITS}{path.name.removeprefix('test_')}": len(path.read_text(encoding="ascii"))
            for path in self.notes.glob("test_*")
        }

    @property
    def results(self) -> dict[str, Result]:
        """The verdicts, which add up to the plan by id (law 1); a test that ran twice says so."""
        found = {one.id: one for one in read_results(self.run_dir / "results.jsonl.gz")}
        plan = json.loads((self.run_dir / "plan.json").read_text(encoding="utf-8"))
        planned = [name for shard in plan["shards"] for group in shard["groups"] for name in group["ids"]]
        assert sorted(found) == sorted(planned)
        for name, times in self.ran.items():
            marked = found[name].attempts > 1 or "may have run before" in found[name].message
            assert times == 1 or marked, name
        return found

    @property
    def verdicts(self) -> dict[str, Verdict]:
        return {name.removeprefix(WAITS): one.verdict for name, one in self.results.items()}

    @property
    def journal(self) -> Path:
        return self.run_dir / "journal" / "0-1.jsonl"

    @contextlib.contextmanager
    def waiting(self) -> Iterator[subprocess.Popen[str]]:
        """A run whose third test waits."""
        process = self.start("run", "--run-dir", str(self.run_dir))
        try:
            wait_for(lambda: (self.notes / "test_c_waits").exists() or process.poll() is not None)
            yield process
        finally:
            process.kill()
            process.communicate(timeout=TIMEOUT_S)


def wait_for(true: Callable[[], bool]) -> None:
    for _ in range(2000):
        if true():
            return
        time.sleep(0.1)
    pytest.fail("it did not come about")


def kill(process: subprocess.Popen[str], run_dir: Path) -> None:
    """End a run without a word, and wait for its workers: one that lives on would run what was let go."""
    process.kill()
    process.communicate(timeout=TIMEOUT_S)
    wait_for(lambda: not find_orphans_of_run(run_dir))


@pytest.fixture
def site(tree: Path, called: Called) -> Site:
    return Site(tree, tree.parent / "runs" / "cut-off", called)


WHOLE = {
    "a_passes": Verdict.PASSED, "b_fails": Verdict.FAILED, "c_waits": Verdict.PASSED,
    "d_passes": Verdict.PASSED, "e_passes": Verdict.PASSED,
}  # fmt: skip


def test_a_worker_that_hears_of_its_runs_end_before_the_pipe_is_closed_ends_in_order(site: Site) -> None:
    # So the kernel does it for a process of several threads, on a machine that is busy.
    with site.waiting() as process:
        begun = rows_of(read_journal(site.journal, 0, 1).events)[0]
        for _ in range(20):  # one for each thread of it
            os.kill(begun["pid"], signal.SIGTERM)
            time.sleep(0.01)
        kill(process, site.run_dir)
    ended = rows_of(read_journal(site.journal, 0, 1).events)[-1]
    assert (ended["e"], ended["status"]) == ("shard_end", "interrupted")


@pytest.mark.parametrize("first", ["child", "worker", "worker, with a supervisor that sleeps"])
def test_a_run_all_of_whose_processes_are_told_to_end_interrupts_the_test_that_runs(
    site: Site, first: str
) -> None:
    with site.waiting() as process:
        worker = rows_of(read_journal(site.journal, 0, 1).events)[0]["pid"]
        (child,) = Path(f"/proc/{worker}/task/{worker}/children").read_text(encoding="ascii").split()
        inner = [int(child), worker] if first == "child" else [worker, int(child)]
        if first.endswith("sleeps"):
            process.send_signal(signal.SIGSTOP)
        for pid in inner:
            os.kill(pid, signal.SIGTERM)
            time.sleep(0.3)
        if first.endswith("sleeps"):
            wait_for(lambda: Path(f"/proc/{worker}/stat").read_text(encoding="ascii").split()[2] == "Z")
        process.send_signal(signal.SIGTERM)  # it hears of it last
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    site.call("report", str(site.run_dir))
    found = site.results[f"{WAITS}c_waits"]
    assert (found.verdict, found.message) == (Verdict.NOT_RUN, "interrupted")
    kinds = {row["e"] for row in rows_of(read_journal(site.journal, 0, 1).events)}
    assert kinds.isdisjoint({"crash", "worker_lost"})


def test_a_second_try_that_the_run_did_not_come_to_is_made_up_for(site: Site) -> None:
    site.environ["SPYRE_CI__RUN__RETRIES"] = "1"
    with site.waiting() as process:
        kill(process, site.run_dir)
    site.release()
    code, out, err = site.resume()
    assert (code, err) == (1, "")
    assert "1 failed test still to be retried" in out
    assert site.ran[f"{WAITS}b_fails"] == 2
    assert site.verdicts == WHOLE
    assert site.results[f"{WAITS}b_fails"].attempts == 2
    # And where nothing else is left to run.
    last = site.journal.with_name("0-2.jsonl")
    lines = last.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if getattr(event_of(line), "id", None) != f"{WAITS}b_fails"]
    assert len(kept) == len(lines) - 2
    last.write_bytes(b"".join(kept))
    code, out, _ = site.resume()
    assert code == 1
    assert "1 failed test still to be retried" in out
    assert "nothing is left to run" not in out
    assert site.ran[f"{WAITS}b_fails"] == 3
    assert site.results[f"{WAITS}b_fails"].attempts == 2
    assert "nothing is left to run" in site.resume()[1]


def test_the_main_job_is_resumed_by_its_own_command(site: Site) -> None:
    words = ("--pytorch-src", str(site.tree), "--files", "test_resume.py", "--percent", "100")
    with site.start("pytorch", *words) as process:
        wait_for(lambda: (site.notes / "test_c_waits").exists() or process.poll() is not None)
        (made,) = (path for path in (site.tree.parent / "runs").iterdir() if path != site.run_dir)
        kill(process, made)
    site.release()
    code, _, err = site.call("pytorch", "--resume", "latest", "--files", "x.py")
    assert code == 2
    assert "--resume latest and --files are given" in err
    site.environ["SPYRE_CI__RUN__RETRIES"] = "3"
    code, out, err = site.call("pytorch", "--resume", made.name, "--json")
    assert (code, json.loads(out)["exit_code"]) == (1, 1)
    assert "as set in that run: retries 0" in err
    site.run_dir = made
    assert site.verdicts == WHOLE
    # What a test wrote beside those that were collected is nobody's concern.
    (site.tree / "test" / "test_new.py").touch()
    (made / "journal" / "0-2.jsonl").unlink()
    assert site.call("pytorch", "--resume", made.name)[0] == 1
    (site.tree / "test" / "test_outcomes.py").write_text("another", encoding="utf-8")
    (made / "journal" / "0-2.jsonl").unlink()
    code, _, err = site.call("pytorch", "--resume", made.name)
    assert code == 2
    assert "restore what the run had, or start a new run" in err


def test_of_two_that_resume_at_once_one_is_refused(site: Site) -> None:
    words = ("run", "--resume", str(site.run_dir))
    with site.start(*words) as first:
        wait_for((site.notes / "test_c_waits").exists)
        code, _, err = site.resume()
        site.release()
        out, _ = first.communicate(timeout=TIMEOUT_S)
    assert (code, first.returncode) == (2, 1), out
    assert f"is being run right now by process {first.pid} on" in err
    assert site.verdicts == WHOLE


def test_lines_that_are_lost_are_told_and_their_tests_run_again_with_a_mark(site: Site) -> None:
    site.release()
    assert site.run()[0] == 1
    lines = site.journal.read_bytes().splitlines(keepends=True)

    def of(kind: str, name: str) -> int:
        found = [{} if (event := event_of(line)) is None else row_of(event) for line in lines]
        return next(
            place
            for place, event in enumerate(found)
            if event.get("e") == kind and event.get("id") == f"{WAITS}{name}"
        )

    flipped = of("end", "a_passes")
    lines[flipped] = lines[flipped].replace(b'"passed"', b'"failed"')
    for kind in ("start", "end"):
        gone = of(kind, "d_passes")
        lines[gone] = lines[gone].replace(b'"e":', b'"f":')
    site.journal.write_bytes(b"".join(lines[: of("end", "e_passes")]) + lines[of("end", "e_passes")][:30])
    code, out, _ = site.resume()
    assert code == 1
    assert "journals: 1 torn line in journal/0-1.jsonl" in out
    assert "journals: 3 lines with a wrong checksum in journal/0-1.jsonl" in out
    assert site.verdicts == WHOLE
    assert site.ran == {
        f"{WAITS}{name}": times
        for name, times in {"a_passes": 2, "b_fails": 1, "c_waits": 1, "d_passes": 2, "e_passes": 2}.items()
    }
    message = site.results[f"{WAITS}d_passes"].message
    assert message == "may have run before: its lines in journal/0-1.jsonl are lost"
    for name in ("summary.json", "summary.md", "report.html"):
        assert "1 torn line in journal/0-1.jsonl" in (site.run_dir / name).read_text(encoding="utf-8")


def test_after_a_power_cut_whatever_runs_may_have_run_before(site: Site) -> None:
    site.release()
    site.run()
    lines = site.journal.read_bytes().splitlines(keepends=True)
    (first,) = rows_of(filter(None, [event_of(lines[0])]))
    kept = [line for line in lines if b"_passes" not in line or b"a_passes" in line][1:-1]
    site.journal.write_bytes(line_of(parse({**first, "boot": "another"})) + b"".join(kept))
    code, out, _ = site.resume()
    assert code == 1
    assert site.verdicts == WHOLE
    reason = "the machine went down, and up to a second of journal/0-1.jsonl with it"
    assert f"2 tests may have run before: {reason}" in out
    assert site.results[f"{WAITS}d_passes"].message == f"may have run before: {reason}"
    assert site.results[f"{WAITS}a_passes"].message == ""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four mebibytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    mounted = mount is not None and subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], capture_output=True, timeout=60, check=False
    ).returncode == 0  # fmt: skip
    if not mounted:
        pytest.skip("the right to mount a small file system is not found")
    yield disk
    subprocess.run(["umount", "--lazy", disk], timeout=60, check=True)


def fill(disk: Path) -> Path:
    """Leave no byte free."""
    path = disk / "filler"
    with path.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        for size in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while stream.write(b"x" * size):
                    pass
    return path


def test_a_full_disk_ends_the_run_early_and_loses_no_verdict(
    tree: Path, small_disk: Path, called: Called
) -> None:
    site = Site(tree, small_disk / "run", called)
    many = """

for number in range(300):
    def test(self):
        if not number % 7:
            print("x" * 100)
    setattr(TestWaits, f"test_z{number:04}", test)
"""
    path = tree / "test" / "test_resume.py"
    path.write_text(TESTS + many, encoding="utf-8")
    ids = [*IDS, *(f"{WAITS}z{number:04}" for number in range(300))]
    site.plan(ids)
    with site.waiting() as process:
        filler = fill(small_disk)
        site.release()
        _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 3
    assert "no space left for the run's journals, so the run ended early" in err
    assert f"`spyre-ci run --resume {site.run_dir}` continues from here" in err
    wait_for(lambda: not find_orphans_of_run(site.run_dir))
    told = {one["id"] for one in rows_of(read_journal(site.journal, 0, 1).events) if one["e"] == "end"}
    assert {f"{WAITS}a_passes", f"{WAITS}b_fails"} <= told < set(ids)
    filler.unlink()
    os.truncate(site.run_dir / "logs" / "0-1.log", 0)
    code, out, err = site.resume()
    assert (code, err) == (1, ""), out
    assert {verdict for name, verdict in site.verdicts.items() if name != "b_fails"} == {Verdict.PASSED}
    assert site.verdicts["b_fails"] is Verdict.FAILED


FORKS = """
import os, time
for _ in range(3000):
    if os.fork():
        os._exit(0)
    time.sleep(0.03)
"""


@pytest.mark.gate
def test_what_forks_again_and_again_is_ended_and_what_a_resumed_run_plans_is_told(site: Site) -> None:
    with site.waiting() as process:
        kill(process, site.run_dir)
    site.environ["SPYRE_CI__RUN__GRACE_S"] = "0.5"
    environ = {**os.environ, VARIABLE: f"1:{site.journal}"}
    for _ in range(3):
        subprocess.run([sys.executable, "-c", FORKS], env=environ, timeout=60, check=True)
    (site.run_dir / "run-settings.json").unlink()  # its grace is another
    deadline = time.monotonic() + TIMEOUT_S
    while not find_orphans_of_run(site.run_dir):  # one look may miss what forks meanwhile
        assert time.monotonic() < deadline
    events = site.tree.parent / "events.jsonl"
    with site.start("run", "--resume", str(site.run_dir), "--events", str(events)) as process:
        # Not before: else the worker that was left would go on with what is planned.
        while not events.exists() or "run_start" not in events.read_text(encoding="utf-8"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        site.release()
        out, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert find_orphans_of_run(site.run_dir) == []
    assert "that the run left behind" in out
    rows = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    (begun,) = [row for row in rows if row["event"] == "run_start"]
    assert (begun["planned"], begun["whole"]) == (3, 5)
    assert sum(rows[-1]["counts"].values()) == 5
    assert site.verdicts == WHOLE


def test_an_empty_journal_puts_nothing_in_doubt(site: Site) -> None:
    site.journal.parent.mkdir()
    site.journal.touch()
    site.release()
    assert site.resume()[0] == 1
    assert site.verdicts == WHOLE
    assert {one.message for one in site.results.values() if one.verdict is Verdict.PASSED} == {""}


def test_the_rest_of_a_run_does_not_go_to_another_back_end(site: Site) -> None:
    with site.waiting() as process:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT_S)
    site.release()
    identity = read_identity(site.run_dir)
    write_identity(site.run_dir, replace(identity, commit="a" * 40))
    site.environ |= {"GITHUB_ACTIONS": "true", "GITHUB_SHA": "b" * 40}
    code, _, err = site.resume()
    assert code == 2
    assert "the checkout is at bbbbbbbbbbbb, and the run's was at aaaaaaaaaaaa" in err
    assert f"check out {'a' * 40}, or start a new run" in err
    site.environ["GITHUB_SHA"] = "a" * 40
    note = site.run_dir / "run-settings.json"
    content = json.loads(note.read_text(encoding="utf-8"))
    note.write_text(json.dumps({**content, "back_end": "torch_spyre 0.1 at 0123"}), encoding="utf-8")
    code, _, err = site.resume()
    assert code == 2
    assert "and the run had torch_spyre 0.1 at 0123" in err
    note.write_text(json.dumps(content), encoding="utf-8")
    assert site.resume()[0] == 1
    assert site.verdicts == WHOLE
    # What only is reported anew runs on nothing.
    site.environ["GITHUB_SHA"] = "b" * 40
    assert site.resume()[0] == 1


def test_what_is_not_that_run_is_refused(site: Site) -> None:
    site.release()
    site.run()
    other = make_plan({"test_resume.py": IDS[:3]})
    kept = (site.run_dir / "plan.json").read_bytes()
    write_plan(site.run_dir / "plan.json", other)
    code, _, err = site.resume()
    assert code == 2
    assert "put the plan that was run back" in err
    (site.run_dir / "plan.json").write_bytes(kept)
    with contextlib.closing(JournalWriter(site.run_dir / "journal" / "0-2.jsonl", time.time)) as journal:
        journal.write(events.NotRun(ids=IDS, message="so that something is left"))
    site.journal.unlink()
    write_source(RunFolder(path=site.run_dir), where=str(site.tree), sha="another")
    code, _, err = site.resume()
    assert code == 2
    assert "and the run's were another" in err
    code, _, err = site.call("run", "--resume", str(site.run_dir), "--run-dir", "x")
    assert code == 2
    assert "--run-dir are given" in err
    code, _, err = site.call("run", "--resume", "nowhere")
    assert (code, "there is no run 'nowhere'" in err) == (2, True)
