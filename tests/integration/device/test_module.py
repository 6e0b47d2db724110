from __future__ import annotations

from typing import Any

import pytest
import torch

from ci.device.backend import describe, register

spyre: Any = None


@pytest.fixture(autouse=True)
def _module() -> None:
    global spyre  # noqa: PLW0603  # the module is there once the device is registered
    spyre = torch.get_device_module("spyre")


def test_the_module_describes_one_device() -> None:
    assert torch.spyre is spyre  # type: ignore[attr-defined]  # registered when run
    assert (spyre.is_available(), spyre.device_count(), spyre.current_device()) == (True, 1, 0)
    assert spyre.get_device_name() == "emulated spyre"
    assert spyre.is_initialized()
    spyre.init()
    spyre.synchronize()
    spyre.empty_cache()


@pytest.mark.parametrize("device", [0, "spyre", "spyre:0", torch.device("cpu", 0)])
def test_a_device_is_named_in_every_usual_way(device: Any) -> None:
    if isinstance(device, torch.device):
        with pytest.raises(ValueError, match="Expected a spyre device, but got: cpu:0"):
            spyre.set_device(device)
        return
    spyre.set_device(device)
    with spyre.device(device):
        assert spyre.current_device() == 0


@pytest.mark.parametrize("device", [1, "spyre:1"])
def test_a_second_device_is_not_there(device: Any) -> None:
    with pytest.raises(RuntimeError, match="spyre:1 is not found"):
        spyre.set_device(device)
    with pytest.raises(RuntimeError, match="spyre:1 is not found"):
        torch.empty(1, device="spyre:1")


def test_states_of_all_devices_go_back_in_order() -> None:
    states = spyre.get_rng_state_all()
    assert len(states) == 1
    spyre.manual_seed(11)
    assert spyre.initial_seed() == 11
    spyre.set_rng_state_all(states)
    assert torch.equal(spyre.get_rng_state(), states[0])
    assert spyre.seed() == spyre.initial_seed()


def test_autocast_may_use_two_dtypes() -> None:
    assert spyre.get_amp_supported_dtype() == [torch.bfloat16, torch.float16]
    assert spyre.is_bf16_supported()


def test_the_device_is_torchs_accelerator() -> None:
    accelerator = torch.accelerator.current_accelerator()
    assert accelerator is not None
    assert accelerator.type == "spyre"


def test_registering_again_changes_nothing() -> None:
    before = describe()
    register(refuse_ops=["add"])
    assert describe() == before == f"emulated on torch {torch.__version__}"
    assert (torch.ones(1, device="spyre") + 1).item() == 2
