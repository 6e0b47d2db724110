"""Sound tests and such that take their process along; each notes every time it runs."""

import ctypes
import itertools
import os
import signal
import stat
import subprocess
import sys
import time
import unittest
from collections import deque
from pathlib import Path

import torch

NOTES = Path(os.environ.get("RUN_NOTES", "/nonexistent"))
DEVICE = os.environ.get("FAULT_DEVICE", "cpu")


class TestRandom(unittest.TestCase):
    def setUp(self):
        with (NOTES / self._testMethodName).open("a") as stream:
            stream.write("x")
        ones = torch.ones(4, device=DEVICE)
        self.assertEqual((ones + ones).sum().item(), 8)

    def test_abort(self):
        os.abort()

    def test_changes_folder(self):
        os.chdir("/")

    def test_closes_its_output(self):
        os.close(1)
        os.close(2)

    def test_exit_zero(self):
        os._exit(0)

    def test_fails(self):
        self.fail("as it should")

    def test_fails_once(self):
        self.assertGreater(len((NOTES / self._testMethodName).read_text()), 1, "the first time")

    def test_killed(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def test_kills_its_worker(self):
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)

    def test_leaves_a_daemon(self):
        again = (
            "import os, time\nif os.fork() == 0:\n    os.setsid()\n"
            "    print(os.getpid(), flush=True)\n    time.sleep(300)"
        )
        with subprocess.Popen(
            [sys.executable, "-c", again], env={}, start_new_session=True, stdout=subprocess.PIPE, text=True
        ) as made:
            (NOTES.parent / "daemon").write_text(made.stdout.readline())

    def test_leaves_special_files(self):
        folder = Path(__file__).parent
        for make in (
            lambda: os.mkfifo(folder / "test_fifo.py"),
            lambda: (folder / "test_zero.py").symlink_to("/dev/zero"),
            lambda: (folder / "full.json").symlink_to("/dev/full"),
        ):
            try:
                make()
            except FileExistsError:
                pass

    def test_says_half_a_line(self):
        for descriptor in range(3, 256):
            try:
                if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                    os.write(descriptor, b'{"m": "do')
            except OSError:
                pass

    def test_terminates_its_worker(self):
        os.kill(os.getppid(), signal.SIGTERM)
        time.sleep(60)

    def test_leaves_a_process(self):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], close_fds=False)

    def test_loops(self):
        deque(itertools.repeat(None), maxlen=0)

    def test_segfault(self):
        ctypes.string_at(0)

    def test_skips(self):
        self.skipTest("not here")


def sound(number):
    def test(self):
        time.sleep(number % 4 * 0.1)

    return test


for number in range(20):
    setattr(TestRandom, f"test_sound_{number:02}", sound(number))
