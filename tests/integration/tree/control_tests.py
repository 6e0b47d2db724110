"""Tests that fail everywhere, on the device alone, or nowhere."""

import os

import torch
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase, run_tests


class TestControl(TestCase):
    @dtypes(torch.float32)
    def test_fails_everywhere(self, device, dtype):
        self.fail(f"broken on {torch.device(device).type} with {dtype}")

    def test_aborts_everywhere(self, device):
        os.abort()

    @dtypes(torch.float32, torch.int64)
    def test_fails_on_the_device(self, device, dtype):
        self.assertEqual(torch.device(device).type, "cpu")

    def test_passes(self, device):
        pass


instantiate_device_type_tests(TestControl, globals())

if __name__ == "__main__":
    run_tests()
