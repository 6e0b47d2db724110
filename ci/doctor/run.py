"""Run the checks side by side within one time: what hangs is named and left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from queue import Empty, Queue

from ci.core.errors import SpyreCiError, UsageError
from ci.doctor.cards import check_cards, check_device
from ci.doctor.disk import check_disk
from ci.doctor.environment import check_index, check_nox, check_python, check_torch
from ci.doctor.finding import Finding, fault, of_error
from ci.doctor.machine import Machine
from ci.doctor.services import check_clock, check_cluster, check_engine, check_hud, check_registry
from ci.doctor.tokens import check_tokens
from test_selection.errors import did_you_mean

# In the order they are shown; each is named as its function.
_ALL: Sequence[Callable[[Machine], Iterable[Finding]]] = (
    check_python, check_nox, check_torch, check_device, check_cards, check_engine, check_registry,
    check_index, check_cluster, check_hud, check_clock, check_tokens, check_disk,
)  # fmt: skip
CHECKS = {one.__name__.removeprefix("check_"): one for one in _ALL}
# All is over within 45 s, with Python's start on a busy machine and ending what still runs.
TOTAL_S, END_S = 30.0, 6.0


def chosen(only: Sequence[str], skip: Sequence[str]) -> list[str]:
    """The names of the checks that are wanted, in their order.

    Args:
        only: these; none: all.
        skip: not these.

    Raises:
        UsageError: a name is unknown, or none is left.
    """
    for name in (*only, *skip):
        if name not in CHECKS:
            remedy = did_you_mean(name, CHECKS, f"they are {', '.join(CHECKS)}")
            raise UsageError(f"there is no check {name!r}", remedy=remedy)
    left = [name for name in CHECKS if name not in skip and (not only or name in only)]
    if not left:
        raise UsageError("no check is left", remedy="skip fewer, or name one with --only")
    return left


def run_checks(
    machine: Machine,
    names: Sequence[str],
    *,
    ended: Callable[[str], object] = str,
    total_s: float = TOTAL_S,
) -> list[Finding]:
    """What all checks find, in their order; no process is left, whatever hangs and whoever interrupts.

    Args:
        machine: the outside world.
        names: of checks.
        ended: is called with each name.
        total_s: after which none is waited for.
    """
    results: Queue[tuple[str, list[Finding]]] = Queue()
    deadline = time.monotonic() + total_s
    for name in names:
        # A check that hangs must not keep the doctor from its end.
        threading.Thread(
            target=_run, args=(machine, name, results), name=f"check-{name}", daemon=True
        ).start()
    found: dict[str, list[Finding]] = {}
    try:
        while len(found) < len(names):
            name, findings = results.get(timeout=max(deadline - time.monotonic(), 0))
            found[name] = findings
            ended(name)
    except Empty:
        pass
    finally:
        machine.stop.set()
        end = time.monotonic() + END_S
        for thread in list(machine.waiting):
            thread.join(max(end - time.monotonic(), 0))
    for name in names:
        remedy = f"see what blocks it (ps, df -h), or leave it out: spyre-ci doctor --skip {name}"
        found.setdefault(name, [fault(f"did not end within {total_s:g} s", remedy)])
    return [replace(one, check=name) for name in names for one in found[name]]


def _run(machine: Machine, name: str, results: Queue[tuple[str, list[Finding]]]) -> None:
    try:
        found = list(CHECKS[name](machine))
    except SpyreCiError as error:
        found = [of_error(error)]
    except Exception as error:  # noqa: BLE001  # a bug of one check must not cost what the others find
        message = f"this check failed itself: {type(error).__name__}: {error}"
        found = [fault(message, f"report it; leave it out: spyre-ci doctor --skip {name}")]
    results.put((name, found))
