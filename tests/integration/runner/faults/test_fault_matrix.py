"""Tests that use the device and then do what no other file of faults does, beside a sound one."""

import itertools
import os
import shutil
from collections import deque
from pathlib import Path

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase, run_tests


class TestFaultMatrix(TestCase):
    def setUp(self):
        super().setUp()
        # Every one of them has the device open when it goes wrong.
        ones = torch.ones(8, 8, device=self.device_type)
        self.assertEqual((ones + ones).sum().item(), 128)

    def test_deletes_results(self, device):
        folder = Path(os.environ["RUN_FOLDER"])
        (folder / "results.jsonl.gz").unlink()
        shutil.rmtree(folder / "junit")

    def test_flood(self, device):
        line = b"x" * 1023 + b"\n"
        for _ in range(1024):
            os.write(1, line * 1024)

    def test_loops_in_c(self, device):
        # No bytecode runs in there, so that no handler of Python's ever does.
        deque(itertools.repeat(None), maxlen=0)

    def test_passes_last(self, device):
        pass


instantiate_device_type_tests(TestFaultMatrix, globals())

if __name__ == "__main__":
    run_tests()
