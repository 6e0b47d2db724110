"""Every operator of the device: checked as on a card, computed on the CPU, handed back as the device's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ci.device import private
from ci.device.calls import Calls
from ci.device.environment import DEVICE_TYPE
from ci.device.generator import GeneratorLoan
from ci.device.memory import Memory, is_device_tensor
from ci.device.module import device_index
from ci.device.refusal import Refusal

# Arguments that an accelerator takes from the CPU whatever their size. Everything else has to be moved
# first; a tensor without dimensions is a number and may stay where it is.
CPU_ARGUMENTS: dict[str, frozenset[str]] = {
    # Indices are moved to the device of the indexed tensor.
    "aten::index": frozenset({"indices"}),
    "aten::index_put": frozenset({"indices"}),
    "aten::index_put_": frozenset({"indices"}),
    "aten::_index_put_impl_": frozenset({"indices"}),
    "aten::_unsafe_index": frozenset({"indices"}),
    "aten::_unsafe_index_put": frozenset({"indices"}),
    # Lengths steer the host's loop and are asked for on the CPU.
    "aten::_pack_padded_sequence": frozenset({"lengths"}),
    "aten::_ctc_loss": frozenset({"input_lengths", "target_lengths"}),
}

_NUMBERS = (bool, int, float, complex)
_NOT_RESIZABLE = "not resizable"


@dataclass(frozen=True, kw_only=True)
class Signature:
    """What the fallback has to know of an operator, read once from its schema."""

    name: str
    arguments: tuple[str, ...]
    written: frozenset[str]
    is_view: bool
    is_random: bool
    tensors: frozenset[str]
    from_cpu: frozenset[str]


@functools.cache
def signature(op: Any) -> Signature:
    """Read an operator overload's schema."""
    schema = private.schema(op)
    written = frozenset(
        a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write
    )
    views = [r for r in schema.returns if r.alias_info is not None and not r.alias_info.is_write]
    return Signature(
        name=schema.name,
        arguments=tuple(argument.name for argument in schema.arguments),
        written=written,
        is_view=bool(views) and not written,
        is_random=torch.Tag.nondeterministic_seeded in op.tags
        or any(str(argument.type) == "Optional[Generator]" for argument in schema.arguments),
        tensors=frozenset(a.name for a in schema.arguments if str(a.type) in {"Tensor", "Optional[Tensor]"}),
        from_cpu=CPU_ARGUMENTS.get(schema.name, frozenset()),
    )


class Fallback:
    """The kernel of every operator that has none of its own on the device."""

    def __init__(self, refusal: Refusal, default_generator: torch.Generator, calls: Calls) -> None:
        self.refusal = refusal
        self.default_generator = default_generator
        self.calls = calls

    def __call__(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        """Run one operator overload; arguments are torch's own, as the dispatcher hands them over.

        Raises:
            RuntimeError: tensors or a generator of another device are mixed in.
        """
        self.calls.note(op, args, kwargs)
        known = signature(op)
        named = dict(zip(known.arguments, args, strict=False)) | kwargs
        check_devices(known, named)
        if known.is_view:
            # A view shares the storage and is nothing but metadata: the CPU's kernel does not care
            # whose memory it is.
            return self.view(op, private.CPU_KEY, *args, **kwargs)
        try:
            return self._compute(op, known, args, kwargs, own=False)
        except RuntimeError as error:
            if _NOT_RESIZABLE not in str(error) or not known.written:
                raise
        return self._compute(op, known, args, kwargs, own=True)

    def view(self, op: Any, key: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel that another dispatch key has for a view operator, on the device's own tensors."""
        result = op.redispatch(key, *args, **kwargs)
        if isinstance(result, torch.Tensor):
            self.refusal.check_dtype(result.dtype)
        return result

    def compute(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run any function of tensors on the CPU and hand its results back as the device's."""
        memory = Memory(self.refusal)
        lend = functools.partial(_map_tensors, memory.on_cpu, is_device_tensor)
        with private.without_cpu_autocast():
            result = function(*lend(args), **{name: lend(value) for name, value in kwargs.items()})
        return _map_tensors(memory.on_device, _is_tensor, result)

    def _compute(self, op: Any, known: Signature, args: Any, kwargs: Any, *, own: bool) -> Any:
        memory = Memory(self.refusal)
        written: list[torch.Tensor] = []

        def lend(name: str, value: Any) -> Any:
            writes = name in known.written

            def one(tensor: torch.Tensor) -> torch.Tensor:
                alias = memory.on_cpu(tensor, own=own and writes)
                if writes:
                    written.append(alias)
                return alias

            return _map_tensors(one, is_device_tensor, value)

        # A number in a tensor's place reaches Python as a number; the overload that takes one is near.
        named = zip(known.arguments, args, strict=False)
        numbers = any(name in known.tensors and isinstance(value, _NUMBERS) for name, value in named)
        target = private.packet(op) if numbers else op
        keeps = _is_other_device(kwargs.get("device"))
        cpu_args = [lend(name, value) for name, value in zip(known.arguments, args, strict=False)]
        cpu_kwargs = {name: lend(name, value) for name, value in kwargs.items()}
        if cpu_kwargs.get("device") is not None and not keeps:
            device_index(cpu_kwargs["device"])
            cpu_kwargs["device"] = torch.device("cpu")
        loan = GeneratorLoan(self.default_generator, cpu_args, cpu_kwargs, random=known.is_random)
        with private.without_cpu_autocast(), loan:
            result = target(*cpu_args, **cpu_kwargs)
        for alias in written:
            memory.follow(alias)
        return result if keeps else _map_tensors(memory.on_device, _is_tensor, result)


def check_devices(known: Signature, named: dict[str, Any]) -> None:
    """Refuse tensors of another device among the device's own, as an accelerator does.

    Raises:
        RuntimeError: with the words PyTorch uses for it.
    """
    for name, value in named.items():
        if name in known.from_cpu:
            continue
        for tensor in _tensors(value):
            if tensor.device.type == DEVICE_TYPE:
                continue
            if tensor.device.type == "cpu" and tensor.dim() == 0 and name not in known.written:
                continue
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{DEVICE_TYPE}:0 and {tensor.device}! "
                f"(when checking argument {name} of {known.name})"
            )


def _is_other_device(device: Any) -> bool:
    return device is not None and torch.device(device).type != DEVICE_TYPE


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [item for item in value if isinstance(item, torch.Tensor)]
    return []


def _map_tensors(change: Callable[[Any], Any], wanted: Callable[[object], bool], value: Any) -> Any:
    if wanted(value):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_map_tensors(change, wanted, item) for item in value)
    return value
