"""`torch.spyre`: what torch and its users expect of a device's module."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

import torch

from ci.device.calls import Calls
from ci.device.environment import DEVICE_TYPE
from ci.device.generator import new_generator

DeviceLike = int | str | torch.device | None

AMP_DTYPES = (torch.bfloat16, torch.float16)


class SpyreModule(types.ModuleType):
    """The module registered as `torch.spyre`: one emulated device, whose work is done when a call returns."""

    def __init__(self) -> None:
        super().__init__("torch.spyre", doc=type(self).__doc__)
        self.default_generators = (new_generator(),)
        self.calls = Calls()
        self.device = DeviceContext

    def is_available(self) -> bool:
        """The emulated device is always there."""
        return True

    def is_initialized(self) -> bool:
        """Nothing has to be set up at first use."""
        return True

    def init(self) -> None:
        """Nothing to do: kept for code that calls it on any accelerator."""

    def device_count(self) -> int:
        """One device is emulated."""
        return 1

    def current_device(self) -> int:
        """The index of the current device."""
        return 0

    def set_device(self, device: DeviceLike) -> None:
        """Make `device` current.

        Raises:
            RuntimeError: there is no such device.
        """
        device_index(device)

    def take_calls(self) -> list[str]:
        """The operators that were called since this was last asked, each an overload and a dtype."""
        return self.calls.take()

    def get_device_name(self, device: DeviceLike = None) -> str:
        """What the device calls itself."""
        device_index(device)
        return "emulated spyre"

    def synchronize(self, device: DeviceLike = None) -> None:
        """Wait for the device's work, which is done already."""
        device_index(device)

    def empty_cache(self) -> None:
        """The device keeps no memory back."""

    def manual_seed(self, seed: int) -> None:
        """Seed the current device's generator."""
        self.default_generators[0].manual_seed(int(seed))

    def manual_seed_all(self, seed: int) -> None:
        """Seed every device's generator."""
        self.manual_seed(seed)

    def seed(self) -> int:
        """Seed the current device's generator from the system, and say with what."""
        return int(self.default_generators[0].seed())

    def initial_seed(self) -> int:
        """The seed of the current device's generator."""
        return int(self.default_generators[0].initial_seed())

    def get_rng_state(self, device: DeviceLike = None) -> torch.Tensor:
        """The generator's state, a tensor of bytes on the CPU."""
        return self.default_generators[device_index(device)].get_state()

    def set_rng_state(self, new_state: torch.Tensor, device: DeviceLike = None) -> None:
        """Put the generator into a state that `get_rng_state` returned."""
        self.default_generators[device_index(device)].set_state(new_state)

    def get_rng_state_all(self) -> list[torch.Tensor]:
        """The state of every device's generator."""
        return [self.get_rng_state()]

    def set_rng_state_all(self, new_states: Iterable[torch.Tensor]) -> None:
        """Put every device's generator into its state."""
        for index, state in enumerate(new_states):
            self.set_rng_state(state, index)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        """The dtypes autocast may cast to."""
        return list(AMP_DTYPES)

    def is_bf16_supported(self) -> bool:
        """Whether bfloat16 may be used."""
        return True

    def _is_in_bad_fork(self) -> bool:
        # The device is memory of this process: a forked child has its own.
        return False

    def _lazy_call(self, call: Any, **_: Any) -> None:
        call()


class DeviceContext:
    """`with torch.spyre.device(0):` makes a device current for a while; there is but one."""

    def __init__(self, device: DeviceLike) -> None:
        self.idx = device_index(device)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def device_index(device: DeviceLike) -> int:
    """The index of a device however it is named; None is the current one.

    Raises:
        ValueError: it is another kind of device.
        RuntimeError: there is no such device.
    """
    if device is None:
        return 0
    if isinstance(device, int):
        index = device
    else:
        wanted = torch.device(device)
        if wanted.type != DEVICE_TYPE:
            raise ValueError(f"Expected a {DEVICE_TYPE} device, but got: {wanted}")
        index = wanted.index or 0
    if index != 0:
        raise RuntimeError(f"{DEVICE_TYPE}:{index} is not found: one device is emulated, {DEVICE_TYPE}:0")
    return index
