"""The prepared parent: torch and PyTorch's test machinery imported once, so that forked children have them.

A parent that ran any parallel operator makes its forked children hang on their first one, because the
threads of its pool do not survive the fork. So it takes one thread before importing anything and
computes nothing. What test files import says whether they want the machinery, and whether they can live in a
forked process at all: it has the parent's locks, threads' leftovers and main module, and what starts
processes of its own from there (Python's and torch's multiprocessing, `os.fork`, PyTorch's multi-process
test cases) may hang in ways it never does in a process of its own.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from pathlib import Path

from ci.runner import instantiation
from test_selection.files import read_bounded

# What nearly every test file of PyTorch imports.
MACHINERY = ("common_utils", "common_device_type", "common_methods_invocations", "common_modules")
_NAMED = b"torch.testing"


def wants_machinery(tests: Path, files: Iterable[str]) -> bool:
    """Whether any of these files names PyTorch's test machinery, so that it is imported once for all of them.

    A file that imports it by way of another one imports it for itself, which takes its time and no more.

    Args:
        tests: the folder of the tests.
        files: test files, relative to it; one that cannot be read is taken to want it.
    """
    return any(_names(tests / file) for file in files)


def _names(path: Path) -> bool:
    try:
        return _NAMED in read_bounded(path)
    except OSError:
        return True


_MODULES = (
    "multiprocessing",
    "torch.multiprocessing",
    "torch.testing._internal.common_distributed",
    "torch.testing._internal.distributed",
    "torch.distributed.elastic",
    "concurrent.futures.process",
)
_NAMES = frozenset({"fork", "forkpty", "ProcessPoolExecutor", "MultiProcessTestCase"})


def starts_processes(source: str) -> bool:
    """Whether a test file imports or calls what forks or spawns processes; no Python does not."""
    if not any(word in source for word in ("multiprocessing", "distributed", *_NAMES)):
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(_does(node) for node in ast.walk(tree))


def _does(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(_is_one(alias.name) for alias in names)
        case ast.ImportFrom(module=str(module), names=names):
            return _is_one(module) or any(
                _is_one(f"{module}.{alias.name}") or alias.name in _NAMES for alias in names
            )
        case ast.Attribute(attr=name):
            return name in _NAMES
        case _:
            return False


def _is_one(module: str) -> bool:
    return any(module == one or module.startswith(f"{one}.") for one in _MODULES)


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


# torch's own accelerators, and what a build has for each.
ACCELERATORS = {"cuda": "CUDA", "xpu": "XPU", "mps": "MPS"}


def _check_device(device: str) -> None:
    import torch  # noqa: PLC0415

    known = {"cpu", torch._C._get_privateuse1_backend_name()}  # noqa: SLF001  # there is no public name for it
    if device in known:
        return
    if device in ACCELERATORS:
        raise SystemExit(not_tested(device, torch.__version__, built=_is_built(device)))
    raise SystemExit(f"device {device!r} is not registered; torch knows {', '.join(sorted(known))}")


def _is_built(device: str) -> bool:
    import torch  # noqa: PLC0415

    return bool(torch._C._has_xpu if device == "xpu" else getattr(torch.backends, device).is_built())  # noqa: SLF001


def not_tested(device: str, version: str, *, built: bool) -> str:
    """Why a device of torch's own cannot be tested, in one line.

    Args:
        device: cuda, xpu or mps.
        version: of torch.
        built: whether this torch is built for it.
    """
    support = "" if built else f"torch {version} is built without {ACCELERATORS[device]}; "
    return f"device {device!r}: {support}spyre-ci tests cpu and PrivateUse1 devices such as spyre"


def set_threads(count: int) -> None:
    """In a child: use `count` threads, this worker's share of the cores."""
    import torch  # noqa: PLC0415

    for name in THREAD_VARIABLES:
        os.environ[name] = str(count)
    torch.set_num_threads(count)
