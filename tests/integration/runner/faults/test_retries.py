"""Tests whose outcome hangs on who ran them before, and slow ones for somebody to help with."""

import os
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


class TestSlow(unittest.TestCase):
    def test_0(self):
        time.sleep(1)


for number in range(1, 12):
    setattr(TestSlow, f"test_{number}", TestSlow.test_0)
