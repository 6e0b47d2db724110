"""A test for each way in which a test takes its process along, between sound ones that use the device."""

import ctypes
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase, run_tests

MIB = 1 << 20


class TestFaultMatrix(TestCase):
    def setUp(self):
        super().setUp()
        # Every one of them has the device open when it goes wrong.
        ones = torch.ones(8, 8, device=self.device_type)
        self.assertEqual((ones + ones).sum().item(), 128)

    def test_abort(self, device):
        os.abort()

    def test_changes_folder(self, device):
        os.chdir("/")

    def test_closes_its_output(self, device):
        os.close(1)
        os.close(2)

    def test_deletes_results(self, device):
        folder = Path(os.environ["RUN_FOLDER"])
        (folder / "results.jsonl.gz").unlink()
        shutil.rmtree(folder / "junit")

    def test_exit_zero(self, device):
        os._exit(0)

    def test_fails(self, device):
        self.fail("as it should")

    def test_flood(self, device):
        line = b"x" * 1023 + b"\n"
        for _ in range(1024):
            os.write(1, line * 1024)

    def test_keeps_the_pipe(self, device):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], close_fds=False)

    def test_killed(self, device):
        os.kill(os.getpid(), signal.SIGKILL)

    def test_loops_in_c(self, device):
        # No bytecode runs in there, so that no handler of Python's ever does.
        deque(itertools.repeat(None), maxlen=0)

    def test_loops_in_python(self, device):
        while True:
            pass

    def test_out_of_memory(self, device):
        kept = []
        while True:
            kept.append(bytearray(b"x") * (64 * MIB))

    def test_passes_first(self, device):
        pass

    def test_passes_last(self, device):
        pass

    def test_segfault(self, device):
        ctypes.string_at(0)

    def test_sleeps(self, device):
        time.sleep(1)


instantiate_device_type_tests(TestFaultMatrix, globals())

if __name__ == "__main__":
    run_tests()
