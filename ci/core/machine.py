"""Which machine this is, and since when it is up: what a journal must say to be judged after a power cut."""

from __future__ import annotations

import os
from pathlib import Path

from ci.core.operating_system import sysctl

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def host_name() -> str:
    """The name of this host."""
    return os.uname().nodename


def boot_id(path: Path = _BOOT_ID) -> str:
    """What the kernel calls the time since it was started, the same in containers; empty where it does not.

    Source: Linux's `Documentation/admin-guide/sysctl/kernel.rst`, `random/boot_id`; macOS's `sysctl -a`.
    """
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return sysctl("kern.bootsessionuuid")
