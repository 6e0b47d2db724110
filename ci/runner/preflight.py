"""Checking a card: a process of its own opens it, computes something small and reads it back.

The worker starts that process as it starts those of tests, so that it never opens the device itself.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.core.commands import signal_name
from ci.runner.child import ChildProcess, gone, start
from ci.runner.ras import hardware_event

POLL_S = 0.02
DUMP_S = 1.0
BUSY = "RAS::VFIO::DeviceOpenFail"
BUSY_PAUSE_S = 0.5
# Whole sticks of the card's memory, and numbers that its shortest floats hold exactly.
LENGTH = 64
EXIT_WRONG = 3
# What the device may lack altogether is no fault of the card: the next one is tried.
DTYPES = ("float16", "float32", "bfloat16", "int64")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a check came to.

    Attributes:
        ok: whether the card works.
        seconds: how long it took.
        message: why the card does not work, on one line.
        detail: the end of what the process printed.
        ras: the card's own word for it; empty where it said nothing.
        ended: whether the process that did it has ended; one that never does keeps the card open.
    """

    ok: bool
    seconds: float
    message: str = ""
    detail: str = ""
    ras: str = ""
    ended: bool = True

    @property
    def busy(self) -> bool:
        """Whether somebody else still has the card open."""
        return not self.ok and BUSY in self.ras


def until_free(
    once: Callable[[], Finding],
    *,
    grace_s: float,
    clock: Callable[[], float],
    pause: Callable[[float], object],
) -> Finding:
    """Check, and check again for a while where a process that was killed may still hold the card.

    One that cannot be ended is waited for in vain, and each check after it may be one more of them.

    Args:
        once: checks the card.
        grace_s: how long a card may take to be let go, in seconds.
        clock: monotonic seconds.
        pause: waits so many seconds.
    """
    deadline = clock() + grace_s
    while (found := once()).busy and found.ended and clock() < deadline:
        pause(BUSY_PAUSE_S)
    return found


def check(
    spec: Mapping[str, Any],
    *,
    log: Path,
    method: str,
    timeout_s: float,
    stopped: Callable[[], bool],
) -> Finding:
    """Check the card (or cards) of this process's environment.

    Args:
        spec: JSON values: `device`, `threads`.
        log: takes what the check prints.
        method: `fork` (this process must be prepared) or `spawn`.
        timeout_s: after which the check has failed.
        stopped: whether to give up; what is found then is of no use.
    """
    began = time.monotonic()
    since = log.stat().st_size if log.exists() else 0
    # Looking at a card takes torch alone.
    child = start(check_card, {**spec, "machinery": False}, log=log, method=method)
    code = _wait(child, began + timeout_s, stopped)
    if code is None:
        child.dump_stacks()
        _wait(child, time.monotonic() + DUMP_S, stopped)
    child.kill()
    ended = gone(child)
    seconds = round(time.monotonic() - began, 3)
    if code == 0:
        return Finding(ok=True, seconds=seconds)
    detail = child.last_lines(start=since)
    event = hardware_event(detail)
    return Finding(
        ok=False,
        seconds=seconds,
        message=(str(event) if event is not None else _why(code, detail, timeout_s))
        + ("" if ended else "; its process cannot be ended"),
        detail=detail,
        ras="" if event is None else str(event),
        ended=ended,
    )


def _wait(child: ChildProcess, deadline: float, stopped: Callable[[], bool]) -> int | None:
    while (code := child.poll()) is None and time.monotonic() < deadline and not stopped():
        time.sleep(POLL_S)
    return code


def _why(code: int | None, detail: str, timeout_s: float) -> str:
    if code is None:
        return f"took longer than {timeout_s:g} s"
    if code < 0:
        return f"died by {signal_name(-code)}"
    lines = [line.strip() for line in detail.splitlines() if line.strip()]
    return lines[-1] if lines else f"ended with code {code}"


def check_card(spec: Mapping[str, Any]) -> int:
    """In the child: use every device that is visible, and say by the exit code whether it works."""
    import torch  # noqa: PLC0415  # the parent that starts this has none where it does not fork

    module = getattr(torch, spec["device"], None)
    count = module.device_count() if module is not None else 1
    if count < 1:
        sys.stderr.write(f"no {spec['device']} device is visible\n")
        return EXIT_WRONG
    for index in range(count):
        if said := _compute(torch, f"{spec['device']}:{index}"):
            sys.stderr.write(f"{said}\n")
            return EXIT_WRONG
    return 0


def _compute(torch: Any, device: str) -> str:
    for name in DTYPES:
        numbers = torch.arange(LENGTH).to(getattr(torch, name))
        try:
            there = numbers.to(device)
            back = (there + there).to("cpu")
        except NotImplementedError:
            continue
        if not torch.equal(back, numbers + numbers):
            return f"{device} added wrongly: {back.tolist()}"
        return ""
    return ""
