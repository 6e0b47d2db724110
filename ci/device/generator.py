"""Random numbers of the device: generators that say `spyre`, and how the CPU's kernels borrow their state."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from ci.device import private
from ci.device.environment import DEVICE_TYPE

# The mutex in front of a generator's device is 40 bytes on Linux and 64 on macOS.
_SEARCHED_BYTES = range(16, 128, 2)


def new_generator() -> torch.Generator:
    """A generator of the device, seeded as a CPU generator is.

    It is the CPU's algorithm with the device's name written into it, so torch itself refuses it where
    a generator of the CPU is asked for.

    Raises:
        RuntimeError: this torch keeps a generator's device elsewhere.
    """
    generator: torch.Generator = private.BaseGenerator("cpu")
    address = private.generator_address(generator)
    for offset in _SEARCHED_BYTES:
        place = (ctypes.c_int8 * 2).from_address(address + offset)
        # A device is a type and an index, a byte each; the CPU's is 0 and -1.
        if tuple(place) != (0, -1):
            continue
        place[0], place[1] = int(private.PRIVATE_USE_1.value), 0
        if generator.device.type == private.backend_name():
            return generator
        place[0], place[1] = 0, -1
    raise RuntimeError(f"torch {torch.__version__} keeps a generator's device where it is not looked for")


def reduce_generator(generator: torch.Generator) -> Any:
    """How a generator is copied and pickled: C++ wants an offset of all but the CPU, ours has none."""
    if generator.device.type == DEVICE_TYPE:
        return _generator_in_state, (generator.get_state(),)
    return generator.__reduce__()


def _generator_in_state(state: torch.Tensor) -> torch.Generator:
    generator = new_generator()
    generator.set_state(state)
    return generator


class _GeneratorFace(type(private.BaseGenerator)):  # type: ignore[misc]  # torch's metaclass, known when run
    """Makes `torch.Generator(device="spyre")` work and leaves every other call and check as it was."""

    def __call__(cls, device: Any = None) -> torch.Generator:
        if device is not None and torch.device(device).type == DEVICE_TYPE:
            return new_generator()
        generator: torch.Generator = private.BaseGenerator("cpu" if device is None else device)
        return generator

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, private.BaseGenerator)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, private.BaseGenerator)


class Generator(private.BaseGenerator, metaclass=_GeneratorFace):  # type: ignore[misc]  # untyped base
    """`torch.Generator` of a process that has the emulated device."""


class GeneratorLoan:
    """While a kernel runs, the CPU's generator goes on from where the device's stands.

    Args:
        default: the device's default generator, for operators that were given none.
        args: the call's positional arguments; generators of the device in it are replaced.
        kwargs: the call's keyword arguments, likewise.
        random: whether the operator draws random numbers at all.
    """

    def __init__(
        self, default: torch.Generator, args: list[Any], kwargs: dict[str, Any], *, random: bool
    ) -> None:
        self._random = random
        self._own = default
        self._cpu = torch.default_generator
        self._before: torch.Tensor | None = None
        if random:
            self._replace(args, range(len(args)))
            self._replace(kwargs, list(kwargs))

    def __enter__(self) -> None:
        if self._random:
            self._before = self._cpu.get_state()
            self._cpu.set_state(self._own.get_state())

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            self._own.set_state(self._cpu.get_state())
            self._cpu.set_state(self._before)

    def _replace(self, arguments: Any, keys: Any) -> None:
        for key in keys:
            given = arguments[key]
            if not isinstance(given, private.BaseGenerator):
                continue
            if given.device.type != DEVICE_TYPE:
                raise RuntimeError(
                    f"Expected a '{DEVICE_TYPE}' device type for generator but found '{given.device.type}'"
                )
            self._own = given
            self._cpu = private.BaseGenerator("cpu")
            arguments[key] = self._cpu
