"""Having a `spyre` device in this process: the real one where torch_spyre is installed, else the emulated."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import importlib.metadata
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from ci.core.errors import BackEndError, DeviceError, SettingsError
from ci.device import private
from ci.device.autocast import autocast_kernels
from ci.device.environment import DEVICE_SETTINGS, DEVICE_TYPE, EMULATE
from ci.device.fallback import Fallback
from ci.device.faults import Fault, fault_of
from ci.device.kernels import own_kernels
from ci.device.module import SpyreModule
from ci.device.patches import apply_patches
from ci.device.refusal import make_refusal

REAL_PACKAGE = "torch_spyre"
# Time autograd's device thread gets before the interpreter ends: without it, one exit in three aborted
# on a busy machine.
SETTLE_S = 0.2

# Registrations last as long as these objects do.
_libraries: list[Any] = []
_in_use: str | None = None


class _Hooks(private.PrivateUse1Hooks):  # type: ignore[misc]  # a C++ class
    def is_available(self) -> bool:
        return True

    def is_built(self) -> bool:
        return True

    def has_primary_context(self, _device_index: int) -> bool:
        return True


class _Guard(private.DeviceGuard):  # type: ignore[misc]  # a C++ class
    def type_(self) -> Any:
        return private.PRIVATE_USE_1


def register(
    *,
    refuse_ops: Iterable[str] = (),
    refuse_dtypes: Iterable[str] = (),
    fault: Fault | None = None,
    emulate: bool | None = None,
) -> None:
    """Make `spyre` a device of this process; a second call does nothing.

    It starts no thread and computes nothing, so a process may fork afterwards and its children compute.

    Args:
        refuse_ops: aten operators the emulated device raises NotImplementedError for.
        refuse_dtypes: dtypes no tensor of the emulated device may have, without `torch.`.
        fault: what is wrong with the emulated card.
        emulate: whether the emulated device is wanted also where the real one is installed; None: only where
            that is not; False: never.

    Raises:
        SettingsError: torch has no such operator or dtype.
        DeviceError: PrivateUse1 is another backend's in this process.
        BackEndError: the real device is not installed, and no other one is wanted.
    """
    global _in_use  # noqa: PLW0603  # torch registers a backend once a process, and so do we
    if _in_use is not None:
        return
    if not emulate and importlib.util.find_spec(REAL_PACKAGE) is not None:
        importlib.import_module(REAL_PACKAGE)
        _in_use = REAL_PACKAGE
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # importable, and not installed
            _in_use = f"{REAL_PACKAGE} {importlib.metadata.version(REAL_PACKAGE)}"
        return
    if emulate is False:
        raise BackEndError(
            f"{REAL_PACKAGE} is not installed here, and {EMULATE}=0 rules the emulated device out",
            where=sys.prefix,
            remedy=f"run in the runtime image's own environment, or install {REAL_PACKAGE}",
        )
    if private.backend_name() != "privateuseone":
        raise DeviceError(
            f"PyTorch's PrivateUse1 is {private.backend_name()!r} in this process already",
            remedy=f"start a process without it, or install {REAL_PACKAGE}",
        )
    refusal = make_refusal(refuse_ops, refuse_dtypes)
    module = SpyreModule()
    private.set_up_backend(DEVICE_TYPE, module=module, hook=_Hooks(), guard=_Guard())
    setattr(torch, DEVICE_TYPE, module)
    apply_patches()
    _register_kernels(Fallback(refusal, module.default_generators[0], module.calls), fault)
    # Autograd's thread for the device is C++ and may still be letting go of Python objects after backward()
    # has returned; a thread that wants the interpreter once it is gone aborts the process.
    atexit.register(time.sleep, SETTLE_S)
    _in_use = f"emulated on torch {torch.__version__}"


def register_from(environ: Mapping[str, str]) -> None:
    """Register as the `SPYRE_CI_DEVICE` of `environ` says: JSON with `refuse_ops` and `refuse_dtypes`.

    Raises:
        SettingsError: it is not such JSON, torch has no such operator or dtype, or a card's fault is unknown.
        DeviceError: as `register` does.
        BackEndError: as `register` does.
    """
    refuse_ops, refuse_dtypes = read_settings(environ.get(DEVICE_SETTINGS, "{}"))
    register(
        refuse_ops=refuse_ops,
        refuse_dtypes=refuse_dtypes,
        fault=fault_of(environ),
        emulate={"1": True, "0": False}.get(environ.get(EMULATE, "")),
    )


def read_settings(text: str) -> tuple[list[str], list[str]]:
    """Read what `device_environment` wrote: the operators and the dtypes to refuse.

    Raises:
        SettingsError: it is not such JSON.
    """
    try:
        settings = json.loads(text)
        refused = settings.get("refuse_ops", []), settings.get("refuse_dtypes", [])
        if not all(isinstance(names, list) and all(isinstance(n, str) for n in names) for names in refused):
            raise TypeError("names must be lists of strings")
    except (ValueError, AttributeError, TypeError) as error:
        raise SettingsError(
            f"{text!r} is not JSON with refuse_ops and refuse_dtypes: {error}",
            where=DEVICE_SETTINGS,
            remedy="let ci.device.environment.device_environment write it",
        ) from error
    return refused


def describe() -> str:
    """Which spyre device this process uses, for a report's head."""
    return "none registered" if _in_use is None else _in_use


def _register_kernels(fallback: Fallback, fault: Fault | None) -> None:
    refusal = fallback.refusal
    every, own = private.Library("_", "IMPL"), private.Library("aten", "IMPL")
    _libraries.extend([every, own])
    every.fallback(fallback if fault is None else fault.guard(fallback), "PrivateUse1")
    every.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    own_ones = {
        name: fallback.calls.noted(f"aten::{name}", kernel) for name, kernel in own_kernels(fallback).items()
    }
    kernels = _cpu_kernels(fallback) | own_ones
    if fault is not None:
        kernels = {name: fault.guard(kernel) for name, kernel in kernels.items()}
    for name, kernel in kernels.items():
        if f"aten::{name.partition('.')[0]}" not in refusal.ops:
            own.impl(name, kernel, "PrivateUse1")
    for name, kernel in autocast_kernels().items():
        own.impl(name, kernel, "AutocastPrivateUse1")
    for name in ("_copy_from", "_copy_from_and_resize"):
        # A lazy conjugate is resolved by a copy: the copy itself must take it as it is.
        for key in ("Conjugate", "Negative"):
            own.impl(name, torch.library.fallthrough_kernel, key)
    for name in sorted(refusal.ops):
        _refuse(name, refusal.device)


def _cpu_kernels(fallback: Fallback) -> dict[str, Callable[..., Any]]:
    """The fallback for every overload with a kernel for the CPU.

    Without it, torch would take its composite form of those that have one too, which rounds otherwise.
    """
    return {name: functools.partial(fallback, private.overload(name)) for name in private.cpu_kernels()}


def _refuse(name: str, device: str) -> None:
    namespace = name.partition("::")[0]
    library = private.Library(namespace, "IMPL")
    _libraries.append(library)

    def refused(*_args: Any, **_kwargs: Any) -> Any:
        raise NotImplementedError(f"The operator '{name}' is not supported on the {device!r} device.")

    for overload in private.overloads(name):
        library.impl(overload, refused, "PrivateUse1")
