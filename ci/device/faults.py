"""Faults of emulated cards: a stand-in for sick ones, by which the runner is tested.

`SPYRE_CI_CARD_FAULTS` holds `card=fault` pairs, separated by commas; the card of a process is in
`SPYRE_CI_CARD`. The faults:

- `open`: the card cannot be opened: the first operation raises, with a RAS event
- `fail:K`: from operation K on everything raises, with a RAS event
- `mute:K`: from operation K on everything raises, and nothing says that it is the card
- `hang:K`: operation K never ends
- `abort:K`: at operation K the card opened and a RAS event are printed, and the process aborts

Operations are counted in each process from 1. Where `SPYRE_CI_CARD_STATE` names a folder, a card that
failed once is dead for every later process: it cannot be opened.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ci.core.errors import SettingsError
from ci.device.environment import CARD_FAULTS, CARD_STATE, EMULATED_CARD

KINDS = ("open", "fail", "mute", "hang", "abort")
_EVENT = (
    '{{"Device":"{card}","action":"information","category":"hardware","code":"0x0000",'
    '"message":"emulated fault","name":"{name}","severity":"ERROR"}}'
)
_NUMBER = re.compile(r"[0-9]{0,9}")
_NEVER_S = 3600.0


@dataclass(slots=True, kw_only=True)
class Fault:
    """What is wrong with the card of this process.

    Attributes:
        card: its name.
        kind: one of KINDS.
        at: the number of the operation from which on it shows.
        dead: the file that says that it showed once; None where processes do not know of each other.
    """

    card: str
    kind: str
    at: int = 1
    dead: Path | None = None
    _count: int = field(default=0)

    def guard(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """The kernel on this card."""

        @functools.wraps(kernel, assigned=("__doc__",), updated=())
        def guarded(*args: Any, **kwargs: Any) -> Any:
            self.step()
            return kernel(*args, **kwargs)

        return guarded

    def step(self) -> None:
        """One operation begins.

        Raises:
            RuntimeError: the card is sick.
        """
        self._count += 1
        if self._count == 1 and self.dead is not None and self.dead.exists():
            raise RuntimeError(event(self.card, "RAS::PCI::PCIeFailure"))
        if self._count < self.at:
            return
        if self.dead is not None:
            self.dead.touch()
        self._show()

    def _show(self) -> None:
        match self.kind:
            case "open":
                raise RuntimeError(event(self.card, "RAS::PCI::PCIeFailure"))
            case "fail":
                raise RuntimeError(event(self.card, "RAS::CBRB::ResponseTimeout"))
            case "mute":
                raise RuntimeError("the operation did not complete")
            case "hang":
                time.sleep(_NEVER_S)
            case _:
                sys.stderr.write(f"ERRR [ras_base.hpp: 95] {event(self.card, 'RAS::PCI::BusFence')}\n")
                sys.stderr.flush()
                os.abort()


def event(card: str, name: str) -> str:
    """A RAS event as the runtime words it."""
    return _EVENT.format(card=card, name=name)


def fault_of(environ: Mapping[str, str]) -> Fault | None:
    """What is wrong with the card of a process; None where it is well.

    Raises:
        SettingsError: the variable is not as described.
    """
    card = environ.get(EMULATED_CARD, "").split(",")[0]
    for pair in filter(None, (one.strip() for one in environ.get(CARD_FAULTS, "").split(","))):
        name, _, said = pair.rpartition("=")
        kind, _, number = said.partition(":")
        if not name or kind not in KINDS or not _NUMBER.fullmatch(number):
            raise SettingsError(
                f"{pair!r} is not card=fault",
                where=CARD_FAULTS,
                remedy=f"give emulated:0=fail:20 or the like; the faults are {', '.join(KINDS)}",
            )
        if name == card:
            folder = environ.get(CARD_STATE)
            dead = Path(folder) / f"{card}.dead" if folder else None
            return Fault(card=card, kind=kind, at=int(number or 1), dead=dead)
    return None
