"""A prepared process that has the device open, and so must not be copied: it begins again as one that spawns.

A card serves one process at a time. Where importing torch opens it, as a device's package may do, no forked
child could, so the process that was to fork lets go of the card by becoming another program.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ci.runner.child import module_words

_DESCRIPTORS = Path("/proc/self/fd")
# Files by which cards are used: VFIO's groups and devices, the kernel's compute accelerators.
_CARDS = ("/dev/vfio/", "/dev/accel/")
# Opening it opens no card: the kernel's documentation of VFIO calls it the container.
_CONTAINER = "/dev/vfio/vfio"


def open_descriptors(folder: Path = _DESCRIPTORS) -> dict[int, str]:
    """What this process has open, by descriptor; nothing where nothing tells."""
    found = {}
    with contextlib.suppress(OSError):
        # The whole list first: the folder's own descriptor is closed then, and its number may be another's.
        for name in os.listdir(folder):  # noqa: PTH208  # Path.iterdir may keep the folder open
            with contextlib.suppress(OSError):
                found[int(name)] = str((folder / name).readlink())
    return found


def why_open(opened: Iterable[str], module: Any) -> str:
    """How it is known that this process has a card open; empty where it is not.

    Args:
        opened: the files it has open.
        module: torch's module of the device, such as `torch.spyre`; None where there is none. One that is
            initialized says so as those of torch's own devices do.
    """
    cards = sorted({path for path in opened if path.startswith(_CARDS) and path != _CONTAINER})
    if cards:
        return f"{', '.join(cards)} is open"
    asked = getattr(module, "is_initialized", None)
    if callable(asked) and asked() is True:
        return "the device is initialized"
    return ""


def device_open(device: str) -> str:
    """`why_open` of this process, in which torch is imported."""
    torch = sys.modules["torch"]
    return "" if device == "cpu" else why_open(open_descriptors().values(), getattr(torch, device, None))


def begin_again(module: str, task: Mapping[str, Any], *, why: str, kept: Collection[int]) -> NoReturn:
    """Become a fresh process of the same id with the same task, whose children are spawned.

    Args:
        module: what runs as a program.
        task: as it was told.
        why: the device is known to be open; told on standard error.
        kept: descriptors that stay open; every other one is closed, whoever opened it.
    """
    sys.stderr.write(f"the device is open before processes are forked ({why}): they are spawned instead\n")
    sys.stderr.flush()
    sys.stdout.flush()
    with tempfile.TemporaryFile() as stream:
        stream.write(json.dumps({**task, "method": "spawn", "again": True}).encode())
        stream.flush()
        for descriptor in open_descriptors():
            with contextlib.suppress(OSError):
                os.set_inheritable(descriptor, descriptor in {0, 1, 2, *kept})
        os.lseek(stream.fileno(), 0, os.SEEK_SET)
        os.set_inheritable(stream.fileno(), True)
        os.execv(sys.executable, [*module_words(module), str(stream.fileno())])  # noqa: S606  # no shell
    raise AssertionError("execv returned")


def told_again(arguments: Sequence[str]) -> dict[str, Any] | None:
    """The task of a process that began again; None for one that began."""
    if not arguments:
        return None
    with os.fdopen(int(arguments[0]), "rb") as stream:
        found: dict[str, Any] = json.load(stream)
    return found
