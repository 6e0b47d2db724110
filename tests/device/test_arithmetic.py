"""What a card must be able to do before anything else is asked of it; emulated where there is none."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int64])
def test_what_goes_to_the_card_comes_back_as_it_was(dtype: torch.dtype) -> None:
    there = torch.arange(6, dtype=dtype).reshape(2, 3)
    assert torch.equal(there.to("spyre").cpu(), there)


def test_the_card_adds_and_multiplies() -> None:
    one = torch.ones(2, 2, device="spyre")
    assert (one + one @ one).cpu().tolist() == [[3.0, 3.0], [3.0, 3.0]]
