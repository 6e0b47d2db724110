"""Which system and machine this is, and how its kernel is asked for what Python has no words for."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from ci.core.errors import SettingsError

PROC = Path("/proc")
_BOOT_ID = PROC / "sys/kernel/random/boot_id"
AUTO, FORK, SPAWN = "auto", "fork", "spawn"


def name() -> str:
    """Linux is linux, macOS is darwin: what `sys.platform` says.

    Asked for when the program runs: a type checker that is told of one system would take what is for the
    others to be unreachable.
    """
    return sys.platform


def is_linux() -> bool:
    """Whether it is Linux."""
    return name() == "linux"


def in_words() -> str:
    """What people call it."""
    return {"linux": "Linux", "darwin": "macOS"}.get(name(), name())


def has_proc(proc: Path = PROC) -> bool:
    """Whether processes can be read there, as on Linux."""
    return (proc / "self" / "stat").exists()


def prctl(option: int, value: int) -> bool:
    """Ask Linux to treat this process otherwise (prctl(2)); whether it does. Others have no such call.

    Args:
        option: its number in linux/prctl.h.
        value: what it takes.
    """
    if not is_linux():
        return False
    return bool(ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) == 0)


def sysctl(key: str) -> str:
    """What macOS's kernel says of a key that holds text (sysctlbyname(3)); empty where it says nothing."""
    if name() != "darwin":
        return ""
    ask = getattr(ctypes.CDLL(None), "sysctlbyname", None)
    size = ctypes.c_size_t(256)
    buffer = ctypes.create_string_buffer(size.value)
    if ask is None or ask(key.encode(), buffer, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
        return ""
    return buffer.value.decode("ascii", "replace")


def host_name() -> str:
    """The name of this host."""
    return os.uname().nodename


def boot_id() -> str:
    """What the kernel calls the time since it was started, the same in containers; empty where it does not.

    A journal says it, to be judged after a power cut.

    Source: Linux's `Documentation/admin-guide/sysctl/kernel.rst`, `random/boot_id`; macOS's `sysctl -a`.
    """
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return sysctl("kern.bootsessionuuid")


def start_method(wanted: str) -> str:
    """How processes that import tests begin: `fork` where a copy of a process is safe, else `spawn`.

    Source for macOS: Python's documentation of `multiprocessing`, "Contexts and start methods": fork is
    unsafe there, as system libraries may start threads.

    Args:
        wanted: the setting `run.start_method`: auto, fork or spawn.

    Raises:
        SettingsError: fork is wanted where it is not safe.
    """
    if wanted == FORK and not is_linux():
        raise SettingsError(
            f"{FORK!r} was requested, and a copy of a process is not safe with the libraries of {name()}",
            where="run.start_method",
            remedy=f"give {SPAWN}, or leave it at {AUTO}, which is {SPAWN} here",
        )
    return FORK if wanted != SPAWN and is_linux() else SPAWN
