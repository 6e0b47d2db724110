"""Tests that cost their worker, and one that costs every journal."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path


def end_the_worker():
    """Kill the worker, from within its child."""
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


class TestCostly(unittest.TestCase):
    """Each of the first two costs its worker, whenever it is run."""

    def test_0(self):
        end_the_worker()

    def test_1(self):
        end_the_worker()

    def test_2(self):
        pass

    def test_3(self):
        pass


class TestOnce(unittest.TestCase):
    def test_costs_its_worker_then_fails(self):
        note = Path(os.environ["RUN_NOTES"], "worker")
        before = len(note.read_text()) if note.exists() else 0
        note.write_text("x" * (before + 1))
        if before == 0:
            end_the_worker()
        self.assertGreater(before, 1, "the second time")

    def test_deletes_every_journal(self):
        for journal in Path(os.environ["RUN_FOLDER"], "journal").iterdir():
            journal.unlink()


class TestDeletesThenCosts(unittest.TestCase):
    def test_0(self):
        pass

    def test_1_deletes_the_journals(self):
        shutil.rmtree(Path(os.environ["RUN_FOLDER"], "journal"))

    def test_2_costs_its_worker(self):
        end_the_worker()

    def test_3(self):
        pass


class TestLeaks(unittest.TestCase):
    def test_a_leaves_a_process(self):
        TestLeaks.left = subprocess.Popen(["sleep", "3600"])

    def test_b_leaves_a_thread(self):
        threading.Thread(target=time.sleep, args=(3600,), name="left").start()

    def test_c_leaves_nothing(self):
        subprocess.run(["true"], check=True)


class TestReachesOut(unittest.TestCase):
    def test_a_says_half_a_line(self):
        for descriptor in range(3, 256):
            try:
                if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                    os.write(descriptor, b'{"m": "do')
            except OSError:
                pass

    def test_b_leaves_a_daemon_without_a_name(self):
        again = (
            "import os, time\nif os.fork() == 0:\n    os.setsid()\n"
            "    print(os.getpid(), flush=True)\n    time.sleep(600)"
        )
        words = [sys.executable, "-c", again]
        with subprocess.Popen(
            words, env={}, start_new_session=True, stdout=subprocess.PIPE, text=True
        ) as made:
            Path(os.environ["STRAY_FILE"]).write_text(made.stdout.readline())

    def test_c_passes(self):
        pass


class TestTerminates(unittest.TestCase):
    """The first asks its worker to end, as who shuts a host down does; what follows has no part in it."""

    def test_00(self):
        os.kill(os.getppid(), signal.SIGTERM)
        time.sleep(60)


for number in range(1, 16):
    setattr(TestTerminates, f"test_{number:02}", lambda self: None)
