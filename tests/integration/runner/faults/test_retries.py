"""Tests whose outcome hangs on who ran them before, and slow ones for somebody to help with."""

import os
import signal
import time
import unittest
from pathlib import Path

RUNS = Path(os.environ.get("RUN_NOTES", "/nonexistent"))


def runs_so_far(name):
    """How often a test was run before; notes this time."""
    note = RUNS / name
    before = len(note.read_text()) if note.exists() else 0
    with note.open("a") as stream:
        stream.write("x")
    return before


class TestRetries(unittest.TestCase):
    def test_fails_once(self):
        self.assertGreater(runs_so_far("once"), 0, "the first time")

    def test_crashes_once(self):
        if runs_so_far("crash") == 0:
            os.abort()

    def test_always_fails(self):
        self.fail(f"run {runs_so_far('always') + 1}")

    def test_passes(self):
        pass

    def test_costs_its_worker_then_fails(self):
        before = runs_so_far("worker")
        if before == 0:
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        self.assertGreater(before, 1, "the second time")

    def test_deletes_every_journal(self):
        for journal in Path(os.environ["RUN_FOLDER"], "journal").iterdir():
            journal.unlink()


class TestCostly(unittest.TestCase):
    """Each of the first two costs its worker, whenever it is run."""

    def test_0(self):
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)

    def test_1(self):
        self.test_0()

    def test_2(self):
        pass

    def test_3(self):
        pass


class TestSlow(unittest.TestCase):
    def test_0(self):
        time.sleep(1)


for number in range(1, 12):
    setattr(TestSlow, f"test_{number}", TestSlow.test_0)
