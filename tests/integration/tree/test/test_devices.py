"""Tests instantiated as PyTorch's own are: by device, dtype, op and parameters."""

import torch
from shared_helper import SIZES
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import (
    TestCase,
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
)


class TestFirst(TestCase):
    def test_plain(self, device):
        self.assertEqual(torch.ones(2, device=device).sum().item(), 2)

    @dtypes(torch.float32, torch.int64)
    @parametrize("size", SIZES)
    def test_sizes(self, device, dtype, size):
        self.assertEqual(torch.zeros(size, device=device, dtype=dtype).numel(), size)

    @ops([op for op in op_db if op.name in {"add", "nn.functional.relu"}], allowed_dtypes=(torch.float32,))
    def test_op(self, device, dtype, op):
        for sample in op.sample_inputs(device, dtype):
            op(sample.input, *sample.args, **sample.kwargs)


class TestSecond(TestCase):
    def test_plain(self, device):
        self.assertEqual(torch.device(device).type, torch.empty(0, device=device).device.type)


@instantiate_parametrized_tests
class TestPlain(TestCase):
    @parametrize("base", [2, 3])
    def test_power(self, base):
        self.assertGreater(base**2, base)


instantiate_device_type_tests(TestFirst, globals())
instantiate_device_type_tests(TestSecond, globals())

if __name__ == "__main__":
    run_tests()
