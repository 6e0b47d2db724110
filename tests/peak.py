"""The most memory a process had at once."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import sys
from pathlib import Path


def peak_of(pid: int) -> int:
    """Bytes of resident memory a process had at their highest; 0 where it is gone, or nothing tells."""
    with contextlib.suppress(OSError):
        if found := re.search(
            r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text("ascii", "replace")
        ):
            return int(found[1]) * 1024
    return 0


def peak_bytes() -> int:
    """The same of this process.

    Linux keeps `ru_maxrss` over exec: there a child begins with the peak of who started it.
    """
    told = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return peak_of(os.getpid()) or told
