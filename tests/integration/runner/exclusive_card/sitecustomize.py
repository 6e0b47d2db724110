"""Stands in for a card that serves one process at a time, and that importing torch opens.

The file EXCLUSIVE_CARD is the card. A copy of a process that has it open cannot use it, as with real ones.
"""

from __future__ import annotations

import fcntl
import os
import sys
from typing import Any

from ci.device.faults import event
from ci.runner.instantiation import when_imported


def _open(_torch: Any) -> None:
    descriptor = os.open(os.environ["EXCLUSIVE_CARD"], os.O_RDWR)
    os.set_inheritable(descriptor, True)  # as a driver's library may leave it
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.stderr.write(f"{event('spyre', 'RAS::VFIO::DeviceOpenFail')}\n")
        sys.stderr.flush()
        os._exit(9)
    os.register_at_fork(after_in_child=os.abort)


def _say_so(module: Any) -> None:
    module.SpyreModule.is_initialized = lambda _: True


when_imported("torch", _open)
when_imported("ci.device.module", _say_so)
