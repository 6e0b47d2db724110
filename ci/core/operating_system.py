"""Which system this is, and by which calls its kernel is asked for what Python has no words for."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

PROC = Path("/proc")


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
    if ask is None:
        return ""
    size = ctypes.c_size_t(256)
    buffer = ctypes.create_string_buffer(size.value)
    if ask(key.encode(), buffer, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
        return ""
    return buffer.value.decode("ascii", "replace")
