"""A run as it is seen while it runs: in a log, on a terminal, and by other tools."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import ci.report.live
from ci.report.results import read_results

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parent.parent.parent
TIMEOUT_S = 240
SCHEMA = json.loads((Path(ci.report.live.__file__).parent / "events.schema.json").read_text(encoding="utf-8"))
EVIL = r"""
import sys
import time
import unittest


class TestEvil(unittest.TestCase):
    def test_prints(self):
        print("::stop-commands::x\n  ::error::printed ##[error]printed", flush=True)
        import os
        os.abort()

    def test_raises(self):
        raise ValueError("::add-mask::raised ##[error]raised\n::error::raised")

    def test_skips(self):
        self.skipTest("::warning::skipped ##[warning]skipped")


class TestLong(unittest.TestCase):
    def test_a(self):
        pass

    def test_b(self):
        time.sleep(60)

    def test_c(self):
        pass
"""


class Shop:
    """A folder in which somebody uses spyre-ci on the small tree, on the CPU, with a file that lies."""

    def __init__(self, folder: Path, tree: Path) -> None:
        self.folder, self.tree = folder, tree
        folder.mkdir()
        (tree / "test" / "test_evil.py").write_text(EVIL, encoding="utf-8")
        outer = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GITHUB_", "JENKINS")) and name != "CI"
        }
        self.environ = {
            **outer,
            "PYTHONPATH": str(ROOT),
            "SPYRE_CI__DEVICE__NAME": "cpu",
            "SPYRE_CI__REPORT__ENDPOINT": "none",
        }
        self.command = [
            sys.executable,
            "-m",
            "ci.cli",
            "pytorch",
            "--pytorch-src",
            str(tree),
            "--percent",
            "100",
        ]

    def start(self, *words: str, stdout: int = subprocess.PIPE, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.command, *words],
            cwd=self.folder,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(self, *words: str, **environ: str) -> tuple[int, str, str]:
        with self.start(*words, stdout=subprocess.PIPE, **environ) as process:
            out, err = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, out, err

    @property
    def run(self) -> Path:
        (found,) = (self.folder / "runs").iterdir()
        return found

    def verdicts(self) -> dict[str, str]:
        return {one.id: one.verdict.value for one in read_results(self.run / "results.jsonl.gz")}


@pytest.fixture
def shop(tmp_path: Path, tree: Path) -> Shop:
    return Shop(tmp_path / "shop", tree)


def checked(lines: list[str]) -> list[dict[str, Any]]:
    """The events, each as the schema has it, from a beginning to an end."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    for row in rows:
        jsonschema.validate(row, SCHEMA)
    assert [row["event"] for row in (rows[0], rows[-1])] == ["run_start", "run_end"]
    return rows


def last_verdicts(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {row["id"]: row["verdict"] for row in rows if row["event"] == "test"}


def test_the_events_say_what_the_report_says_retries_and_all(shop: Shop, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    shutil.copy(Path(__file__).parent / "runner" / "faults" / "test_retries.py", shop.tree / "test")
    words = ("--files", "test_retries.py,test_outcomes.py", "-k", "not TestSlow", "--cards", "2")
    code, out, err = shop.call(*words, "--retries", "1", "--events", "events.jsonl", RUN_NOTES=str(notes))
    rows = checked((shop.folder / "events.jsonl").read_text(encoding="ascii").splitlines())
    verdicts = last_verdicts(rows)
    assert (code, err) == (1, "")
    assert verdicts == shop.verdicts()
    assert verdicts["test_retries.py::TestRetries::test_fails_once"] == "flaky"
    summary = json.loads((shop.run / "summary.json").read_text(encoding="utf-8"))
    assert rows[-1]["counts"] == summary["verdicts"]
    assert rows[-1]["exit"] == 1
    assert rows[0]["planned"] == len(verdicts)
    assert {row["file"] for row in rows if row["event"] == "file_end"} == {
        "test_retries.py",
        "test_outcomes.py",
    }
    assert any(row["event"] == "retry" and row["attempt"] == 2 for row in rows)
    for file in ("test_retries.py: ", "test_outcomes.py: 3 passed, 4 failed, 1 skipped, 1 xfailed in "):
        assert any(line.startswith(file) for line in out.splitlines())
    (failed,) = (
        line
        for line in out.splitlines()
        if line.endswith("s] test_outcomes.py::TestOutcomes::test_errors  OSError: disk on fire")
    )
    assert failed.startswith("FAIL [")


def test_in_a_log_of_github_no_test_can_give_a_command(shop: Shop) -> None:
    words = ("--files", "test_evil.py,test_devices.py", "-k", "TestEvil or add")
    code, out, _ = shop.call(*words, GITHUB_ACTIONS="true", CI="true")
    assert code == 1
    commands = [line for line in out.splitlines() if line.lstrip().startswith("::") or "##[" in line]
    assert {line.partition("::")[2].partition("::")[0].split()[0] for line in commands} == {
        "group", "endgroup", "error",
    }  # fmt: skip
    errors = [line for line in commands if line.startswith("::error ")]
    assert len(errors) == 2
    assert all(line.startswith("::error file=test_evil.py,title=test_evil.py%3A%3A") for line in errors)
    assert "|     ::stop-commands::x" in out


def test_to_standard_output_go_events_alone(shop: Shop) -> None:
    code, out, err = shop.call("--files", "sub/*", "--events", "-")
    rows = checked(out.splitlines())
    assert code == 0
    assert last_verdicts(rows) == {"sub/test_nested.py::test_nested": "passed"} == shop.verdicts()
    assert "sub/test_nested.py: 1 passed in" in err


def test_a_reader_that_leaves_costs_the_run_nothing(shop: Shop) -> None:
    with shop.start("--files", "test_devices.py", "--events", "-") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
        assert process.wait(TIMEOUT_S) == 0
    assert set(shop.verdicts().values()) == {"passed"}
    assert "events end early: no reader is left" in err


def test_an_interrupted_run_tells_of_every_test_and_of_its_end(shop: Shop) -> None:
    with shop.start("-k", "TestLong", "--files", "test_evil.py", "--events", "-", "--cards", "1") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines: list[str] = []
        while len(lines) < 2:  # the beginning, and the first test
            lines.append(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        lines += process.stdout.readlines()
        process.stderr.read()
        assert process.wait(TIMEOUT_S) == 130
    rows = checked(lines)
    assert last_verdicts(rows) == shop.verdicts()
    assert rows[-1]["exit"] == 130
    assert rows[-1]["counts"]["not_run"] == 2


def test_a_terminal_gets_a_bar_with_failures_above_it(shop: Shop) -> None:
    # Long enough that the card is seen at work: the bar moves twice a second.
    outcomes = shop.tree / "test" / "test_outcomes.py"
    quick, slow = (
        "def test_passes(self):\n        " + body for body in ("pass", "__import__('time').sleep(1.2)")
    )
    outcomes.write_text(outcomes.read_text(encoding="utf-8").replace(quick, slow), encoding="utf-8")
    ours, theirs = pty.openpty()
    shop.environ |= {"TERM": "xterm", "COLUMNS": "150", "NO_COLOR": "1"}
    with shop.start("--files", "test_outcomes.py", "--cards", "1", stdout=theirs) as process:
        os.close(theirs)
        data = b""
        try:
            while chunk := os.read(ours, 1 << 16):
                data += chunk
        except OSError:
            pass  # how a terminal says that its other side is gone
        assert process.wait(TIMEOUT_S) == 1
    os.close(ours)
    text = data.decode()
    assert "━" in text
    assert "/9 " in text
    assert "1 of " in text
    assert "s] test_outcomes.py::TestOutcomes::test_errors  OSError: disk on fire" in text


def test_two_machines_cannot_have_standard_output(shop: Shop) -> None:
    code, out, err = shop.call("--events", "-", "--json")
    assert (code, out) == (2, "")
    assert "--events - and --json both write to standard output" in err
    assert "remedy: name a file for --events" in err


@pytest.mark.parametrize("where", ["", "/nonexistent/folder/events", "."])
def test_events_that_cannot_be_written_are_refused_before_anything_is_done(shop: Shop, where: str) -> None:
    code, _, err = shop.call("--events", where)
    assert code == 2
    assert err.startswith("spyre-ci: ")
    assert "Traceback" not in err
    assert not (shop.folder / "runs").exists()
