"""Which cards this host has: given by Kubernetes, by the environment, or emulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ci.errors import DeviceError, UsageError

# The device plugin's list of PCI addresses; what it calls them has changed once.
PCI_VARIABLES = ("PCIDEVICE_IBM_COM_SPYRE_PF", "PCIDEVICE_IBM_COM_AIU_PF")
CARDS_VARIABLE = "SPYRE_DEVICES"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One accelerator: its name in reports, and what tells a process to use it."""

    name: str
    environment: Mapping[str, str]


def together(cards: Sequence[Card]) -> Card:
    """Several cards as one, for tests that need them at once."""
    if len(cards) == 1:
        return cards[0]
    named = [one.environment[CARDS_VARIABLE] for one in cards if CARDS_VARIABLE in one.environment]
    environment = {CARDS_VARIABLE: ",".join(named)} if named else {}
    return Card(name="+".join(one.name for one in cards), environment=environment)


def inventory(environ: Mapping[str, str], *, device: str, wanted: int, cores: int) -> list[Card]:
    """The cards a run uses, in a fixed order.

    Args:
        environ: the environment; a pod sees its cards in the device plugin's variable.
        device: the device's name; `cpu` has no cards, so that workers count in their place.
        wanted: how many; 0 means all there are, or one a core where they are emulated.
        cores: CPU cores of this host.

    Raises:
        UsageError: a number below 0.
        DeviceError: fewer real cards than wanted.
    """
    if wanted < 0:
        raise UsageError(f"--cards is {wanted}", remedy="give a number of cards, or 0 for all there are")
    real = [] if device == "cpu" else _real(environ)
    if not real:
        kind = "cpu" if device == "cpu" else "emulated"
        return [Card(name=f"{kind}:{index}", environment={}) for index in range(wanted or cores)]
    if wanted > len(real):
        raise DeviceError(
            f"{wanted} cards wanted, {len(real)} there: {', '.join(real)}",
            remedy=f"ask for --cards {len(real)} or fewer, or request more cards for the pod",
        )
    return [Card(name=one, environment={CARDS_VARIABLE: one}) for one in real[: wanted or len(real)]]


def _real(environ: Mapping[str, str]) -> list[str]:
    for variable in (CARDS_VARIABLE, *PCI_VARIABLES):
        names = [one.strip() for one in environ.get(variable, "").split(",") if one.strip()]
        if names:
            return list(dict.fromkeys(names))
    return []
