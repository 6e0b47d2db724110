"""The prepared parent: torch and PyTorch's test machinery imported once, so that forked children have them.

A parent that ran any parallel operator makes its forked children hang on their first one, because the
threads of its pool do not survive the fork. So it takes one thread before importing anything and
computes nothing.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
from collections.abc import Iterator, Mapping, MutableMapping

from ci.runner import instantiation
from ci.runner.machinery import MACHINERY

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def single_thread(environ: MutableMapping[str, str]) -> None:
    """Hold every maths library to one thread; only works before the first of them is imported."""
    for name in THREAD_VARIABLES:
        environ[name] = "1"


def import_torch(device: str, *, machinery: bool) -> str:
    """Import torch, hook the instantiation, and, where wanted, import what PyTorch's test files import.

    Args:
        device: the device under test; its own package registers it where it has one.
        machinery: whether files want PyTorch's test machinery.

    Returns:
        torch's version.
    """
    with garbage_kept():
        import torch  # noqa: PLC0415  # after the threads are set

        torch.set_num_threads(1)
        for name in MACHINERY if machinery else _registering(os.environ):
            importlib.import_module(f"torch.testing._internal.{name}")
    instantiation.install()
    _check_device(device)
    return str(torch.__version__)


def _registering(environ: Mapping[str, str]) -> tuple[str, ...]:
    """What of the machinery registers the device: it runs the file that TORCH_TEST_DEVICES names."""
    return ("common_device_type",) if environ.get("TORCH_TEST_DEVICES") else ()


@contextlib.contextmanager
def garbage_kept() -> Iterator[None]:
    """Look for no garbage while modules are imported: nearly all they make stays, and there is much of it.

    Looking costs a quarter of torch's import, and of setting up a file of thousands of generated tests.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _check_device(device: str) -> None:
    import torch  # noqa: PLC0415

    known = {"cpu", torch._C._get_privateuse1_backend_name()}  # noqa: SLF001  # there is no public name for it
    if device not in known:
        raise SystemExit(f"device {device!r} is not registered; torch knows {', '.join(sorted(known))}")


def set_threads(count: int) -> None:
    """In a child: use `count` threads, this worker's share of the cores."""
    import torch  # noqa: PLC0415

    for name in THREAD_VARIABLES:
        os.environ[name] = str(count)
    torch.set_num_threads(count)
