"""The op suite: every operator of torch's OpInfo database, each dtype it states, device against CPU.

One test a (operator, dtype). Sample inputs are made on the device; the same operator runs on them and on
copies on the CPU, and both results have to agree. What is known not to work is declared beside this file in
suite.yaml; the module itself expects every test to pass.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.common_device_type import OpDTypes, instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase, run_tests
from torch.utils._pytree import tree_leaves, tree_map_only

# Samples of one operator differ in shape and options; the first few are its plain forms. More of them would
# make the suite take an hour instead of minutes.
MAX_SAMPLES = 4
SEED = 0

# Their values are whatever the memory held.
UNINITIALISED = frozenset(
    ["empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"]
)
# They exist on CUDA alone: the CPU has nothing to compare with.
CUDA_ONLY = ("jiterator_", "torch._scaled_mm_v2", "bmm.triton_optimized")
OPERATORS = [op for op in op_db if not f"{op.name}.{op.variant_test_name}".startswith(CUDA_ONLY)]


class TestOpSuite(TestCase):
    """The device's operators against the CPU's."""

    @ops(OPERATORS, dtypes=OpDTypes.supported)  # type: ignore[untyped-decorator]  # torch's own
    def test_op(self, device: str, dtype: torch.dtype, op: Any) -> None:
        """The operator gives on the device what it gives on the CPU, and gives it on the device."""
        count = 0
        for count, sample in enumerate(samples_of(op, device, dtype), start=1):
            try:
                self.check(op, sample, torch.device(device))
            except Exception as error:
                error.add_note(f"with sample {count - 1} of {op.name}: {sample.summary()}")
                raise
        assert count, "the OpInfo has no sample inputs"  # noqa: S101  # a test

    def check(self, op: Any, sample: Any, device: torch.device) -> None:
        """Run one sample on both sides and compare."""
        reference = sample.transform(lambda value: on_cpu(value, device))
        # Both sides draw the same random numbers: the emulated device has the CPU's generator.
        seed()
        expected = op(reference.input, *reference.args, **reference.kwargs)
        seed()
        actual = op(sample.input, *sample.args, **sample.kwargs)
        for tensor in tensors(actual):
            assert tensor.device.type == device.type, "the result is not on the device"  # noqa: S101  # a test
        if op.name in UNINITIALISED:
            assert shapes(actual) == shapes(expected)  # noqa: S101  # a test
        else:
            self.assertEqual(
                to_cpu(actual), expected, exact_dtype=True, equal_nan=True
            )  # torch's own, for tensors


def samples_of(op: Any, device: str, dtype: torch.dtype) -> Iterator[Any]:
    """The first sample inputs of an operator, the same in every run.

    The OpInfo's own `sample_inputs` looks through the whole call stack for the test it is in, source
    lines included, which costs more than most operators do.
    """
    seed()
    samples = op.sample_inputs_func(op, torch.device(device), dtype, requires_grad=False)
    return itertools.islice(samples, MAX_SAMPLES)


def seed() -> None:
    """Start both random streams anew, without the tracebacks torch.manual_seed keeps for absent devices."""
    torch.default_generator.manual_seed(SEED)
    name = torch._C._get_privateuse1_backend_name()  # noqa: SLF001  # there is no public way to ask
    module = getattr(torch, name, None)
    if module is not None:
        module.manual_seed_all(SEED)


def on_cpu(value: Any, device: torch.device) -> Any:
    """The same input for the CPU: a copy of a tensor, `cpu` for the device's own name."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return value.detach().to("cpu", copy=True)
        # The memory around a view comes along: as_strided may look at it.
        memory = value.untyped_storage()
        host = torch.empty(memory.nbytes(), dtype=torch.uint8, device="cpu").untyped_storage().copy_(memory)
        copy = torch.empty(0, dtype=value.dtype, device="cpu").set_(
            host, value.storage_offset(), value.size(), value.stride()
        )
        copy = copy.conj() if value.is_conj() else copy
        return torch._neg_view(copy) if value.is_neg() else copy  # noqa: SLF001  # the bit has no public setter
    if isinstance(value, (torch.device, str)) and str(value) in {str(device), device.type}:
        return torch.device("cpu")
    return value


def tensors(result: Any) -> Iterator[torch.Tensor]:
    """Every tensor of a result, however nested."""
    return (leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))


def shapes(result: Any) -> list[tuple[torch.Size, torch.dtype]]:
    """What is left to compare of memory nobody wrote to."""
    return [(tensor.shape, tensor.dtype) for tensor in tensors(result)]


def to_cpu(result: Any) -> Any:
    """A result with its tensors on the CPU."""
    return tree_map_only(torch.Tensor, lambda tensor: tensor.cpu(), result)


instantiate_device_type_tests(TestOpSuite, globals())  # type: ignore[no-untyped-call]  # torch's own

if __name__ == "__main__":
    run_tests()  # type: ignore[no-untyped-call]  # torch's own
