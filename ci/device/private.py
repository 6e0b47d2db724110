"""What the device needs of torch beyond its public face, in one place, so that a new pin is checked here.

A backend in Python has no public way to make a tensor of its own device over memory, to read an
operator's schema or to build a generator of its own device. The names below are torch's own; each is
used by this room and by nothing else in the project.
"""

# ruff: noqa: SLF001  # this module is where torch's private names are gathered, so that no other uses them

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils import backend_registration

# torch's type stubs leave out some keys, and the arguments of these.
_key: Any = torch._C._dispatch_key_parse
Library: Any = torch.library.Library

COMPOSITE_KEY = torch._C.DispatchKeySet(_key("CompositeExplicitAutograd"))
CPU_KEY = torch._C.DispatchKeySet(_key("CPU"))
_CPU_AUTOCAST_KEY = torch._C.DispatchKeySet(_key("AutocastCPU"))
_AUTOCAST_KEY = torch._C.DispatchKeySet(_key("AutocastPrivateUse1"))

# DLPack's code for "a device the standard does not know", which torch maps to PrivateUse1, and the place
# of the device's type in its DLTensor struct: right behind the data pointer.
_DLPACK_EXTENSION_DEVICE = 12
_DLPACK_DEVICE_OFFSET = ctypes.sizeof(ctypes.c_void_p)

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

PrivateUse1Hooks: Any = torch._C._acc.PrivateUse1Hooks
DeviceGuard: Any = torch._C._acc.DeviceGuard
BaseGenerator: Any = torch._C.Generator
PRIVATE_USE_1: Any = torch._C._autograd.DeviceType.PrivateUse1


def set_up_backend(name: str, *, module: object, hook: object, guard: object) -> None:
    """Rename PrivateUse1 and hand torch the backend's module, hooks and device guard."""
    backend_registration._setup_privateuseone_for_python_backend(
        name, backend_module=module, hook=hook, device_guard=guard
    )


def backend_name() -> str:
    """The name PrivateUse1 has in this process; `privateuseone` where nobody renamed it."""
    return str(torch._C._get_privateuse1_backend_name())


def empty_device_tensor(dtype: torch.dtype) -> torch.Tensor:
    """A tensor of the device with one dimension, no elements and no memory."""
    tensor: torch.Tensor = torch._C._acc.create_empty_tensor((0,), dtype)
    return tensor


def device_storage(memory: torch.UntypedStorage) -> torch.UntypedStorage:
    """A storage of the device over a CPU storage's memory, which lives as long as the new one does."""
    flat = torch.empty(0, dtype=torch.uint8, device="cpu").set_(memory)
    capsule = torch._C._to_dlpack(flat)
    address = _capsule_pointer(capsule, b"dltensor") + _DLPACK_DEVICE_OFFSET
    ctypes.c_int32.from_address(address).value = _DLPACK_EXTENSION_DEVICE
    return torch._C._from_dlpack(capsule).untyped_storage()


def borrowed_storage(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """A CPU storage over a device storage's memory: it owns nothing and cannot be resized."""
    construct: Any = torch._C._construct_storage_from_data_pointer
    borrowed: torch.UntypedStorage = construct(storage.data_ptr(), torch.device("cpu"), storage.nbytes())
    return borrowed


def cpu_storage(nbytes: int) -> torch.UntypedStorage:
    """A new CPU storage that owns its memory and can be resized."""
    make: Any = torch.UntypedStorage
    storage: torch.UntypedStorage = make(nbytes, device="cpu")
    return storage


def offset_of(tensor: torch.Tensor) -> int:
    """Where a tensor begins in its storage, in elements."""
    return int(tensor.storage_offset())


def storage_id(storage: torch.UntypedStorage) -> int:
    """What two Python objects of one storage have in common."""
    return int(storage._cdata)


def schema(op: Any) -> Any:
    """An operator overload's schema: arguments, returns and which of them are aliases."""
    return op._schema


def packet(op: Any) -> Any:
    """All overloads of an operator overload's operator; calling it picks the one the arguments fit."""
    return op._overloadpacket


def conjugate_view(tensor: torch.Tensor) -> torch.Tensor:
    """The lazy conjugate over the same memory, for any tensor whose conjugate bit has to be set."""
    return torch._conj(tensor)


def negative_view(tensor: torch.Tensor) -> torch.Tensor:
    """The lazy negative over the same memory."""
    return torch._neg_view(tensor)


def overloads(name: str) -> list[Any]:
    """Every overload of an operator, such as `aten::add.Tensor` and `aten::add.out` of `aten::add`."""
    namespace, _, base = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), base)
    return [getattr(packet, overload) for overload in packet.overloads()]


def operator_names() -> set[str]:
    """Every operator torch knows, without overload: `aten::add`, `aten::add_` and so on."""
    names: Iterable[str] = torch._C._dispatch_get_all_op_names()
    return {name.split(".", 1)[0] for name in names}


def cpu_kernels() -> list[str]:
    """Every aten overload that has a kernel for the CPU itself, such as `add.Tensor`."""
    names: Iterable[str] = torch._C._dispatch_get_all_op_names()
    return [
        name.removeprefix("aten::")
        for name in names
        if name.startswith("aten::") and torch._C._dispatch_has_kernel_for_dispatch_key(name, "CPU")
    ]


def without_autocast() -> Any:
    """A context in which the device's autocast is passed over."""
    return torch._C._ExcludeDispatchKeyGuard(_AUTOCAST_KEY)


def without_cpu_autocast() -> Any:
    """A context in which the CPU's autocast is passed over: the CPU only stands in for the device."""
    return torch._C._ExcludeDispatchKeyGuard(_CPU_AUTOCAST_KEY)


def generator_address(generator: torch.Generator) -> int:
    """Where the C++ generator behind the Python object stands."""
    # A Python object's head is its reference count and its type; the first field behind it is the
    # pointer to the C++ generator.
    pointer = ctypes.c_void_p.from_address(id(generator) + object.__basicsize__).value
    if pointer is None:  # pragma: no cover  # torch never hands out a generator without its C++ half
        raise RuntimeError("a generator without an implementation")
    return pointer


def overload(name: str) -> Any:
    """One overload of an aten operator by its name there, such as `add.Tensor`; `mm` is `mm.default`."""
    packet, _, which = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), which or "default")
