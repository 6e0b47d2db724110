from __future__ import annotations

import pytest
import torch


@pytest.mark.parametrize(
    ("expression", "calls"),
    [
        ("a + a", {"aten::add.Tensor float32"}),
        ("a.add_(1)", {"aten::add_.Tensor float32"}),
        ("torch.cat([a, a])", {"aten::cat float32"}),
        ("torch.empty(2, dtype=torch.int8, device='spyre')", {"aten::empty.memory_format int8"}),
        ("a.shape", set()),
    ],
)
def test_the_device_says_what_it_was_asked_for(expression: str, calls: set[str]) -> None:
    module = getattr(torch, "spyre")  # noqa: B009  # torch has no such attribute of its own
    a = torch.ones(2, device="spyre")
    module.take_calls()
    eval(expression, {"a": a, "torch": torch})  # noqa: S307  # a row of the table above
    called = set(module.take_calls())

    assert called >= calls
    assert bool(called) == bool(calls)
    assert module.take_calls() == []
