"""Which cards this host has: given by the environment, found on the PCI bus, or emulated.

How real cards are told apart is torch-spyre's way: SPYRE_DEVICES holds positions in the host's list of
cards. That list is the device plugin's where there is one (in the order of AIU_WORLD_RANK_<n> where login
scripts give ranks), else every Spyre card of the PCI bus by address.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ci.core import operating_system
from ci.core.errors import DeviceError, UsageError

# Positions of cards in the list the host gives, as CUDA_VISIBLE_DEVICES has them.
CARDS_VARIABLE = "SPYRE_DEVICES"
# The emulated device's own; `ci.device.faults` reads it.
EMULATED_VARIABLE = "SPYRE_CI_CARD"
# The device that can be emulated, and what asks for that (`1`) or rules it out (`0`).
EMULATED_DEVICE = "spyre"
EMULATE = "SPYRE_CI_EMULATE"
# The device plugin's list of PCI addresses; what it calls them has changed once.
PCI_VARIABLES = ("PCIDEVICE_IBM_COM_SPYRE_PF", "PCIDEVICE_IBM_COM_AIU_PF")
RANK_VARIABLE = "AIU_WORLD_RANK_"
ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
POSITION = re.compile(r"[0-9]{1,4}")
# Vendor and device numbers of the card's physical and its virtual function.
SPYRE_IDS = {("0x1014", "0x06a7"), ("0x1014", "0x06a8")}
_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One accelerator: its name in reports, and what tells a process to use it."""

    name: str
    environment: Mapping[str, str]


def inventory(
    environ: Mapping[str, str], *, device: str, wanted: int, cores: int, root: Path = Path("/")
) -> list[Card]:
    """The cards a run may have at once, in a fixed order: as many as wanted of those that are there.

    Args:
        environ: the environment; what asks for the emulated device gets no real cards.
        device: the device's name; `cpu` has no cards, so that workers count in their place.
        wanted: how many; 0 means all there are, or one a core where they are emulated.
        cores: CPU cores of this host.
        root: below which `dev` and `sys` are.

    Raises:
        UsageError: a number below 0.
        DeviceError: fewer real cards than wanted, or they are named wrongly, or on a system that has none.
    """
    if wanted < 0:
        raise UsageError(f"--cards is {wanted}", remedy="give a number of cards, or 0 for all there are")
    found = present(environ, device=device, wanted=wanted, cores=cores, root=root)
    if wanted > len(found):
        raise DeviceError(
            f"{wanted} cards requested, {len(found)} found: {_listed([card.name for card in found])}",
            remedy=f"ask for --cards {len(found)} or fewer, or request more cards for the pod",
        )
    emulated = not is_real(found)
    return found[: wanted or (max(1, cores) if emulated else len(found))]


def present(
    environ: Mapping[str, str], *, device: str, wanted: int, cores: int, root: Path = Path("/")
) -> list[Card]:
    """All cards of this host, of which a run takes those that are free; see `inventory`.

    Raises:
        DeviceError: they are named wrongly, or on a system that has none.
    """
    real = [] if device == "cpu" else _real(environ, root)
    # What is emulated must not be told of a card; there are as many, then.
    if real and not (device == EMULATED_DEVICE and environ.get(EMULATE) == "1"):
        return real
    number = len(real) or max(wanted, cores, 1)
    if device == "cpu":
        return [Card(name=f"cpu:{index}", environment={}) for index in range(number)]
    names = [f"emulated:{index}" for index in range(number)]
    return [Card(name=name, environment={EMULATED_VARIABLE: name}) for name in names]


def together(cards: Sequence[Card]) -> Card:
    """Several cards as one, for tests that need them at once."""
    if len(cards) == 1:
        return cards[0]
    environment: dict[str, str] = {}
    for card in cards:
        for name, value in card.environment.items():
            environment[name] = f"{environment[name]},{value}" if name in environment else value
    return Card(name="+".join(one.name for one in cards), environment=environment)


def is_real(cards: Sequence[Card]) -> bool:
    """Whether cards are real ones."""
    return any(CARDS_VARIABLE in card.environment for card in cards)


def _real(environ: Mapping[str, str], root: Path) -> list[Card]:
    if not operating_system.is_linux():
        _refuse_cards(environ)
        return []
    given = _given(environ)
    if words := _words(environ, CARDS_VARIABLE):
        # Where a host's own numbers are used, they go beyond the list of this pod's addresses.
        known = given if all(int(word) < len(given) for word in words if POSITION.fullmatch(word)) else []
        cards = [_chosen(word, given, known) for word in words]
        _refuse_twice([card.name for card in cards], CARDS_VARIABLE)
        return cards
    if given:
        return [_card(address, place) for place, address in enumerate(given)]
    # Positions count every card of the bus; one that is bound to another driver cannot be used.
    bus = _on_the_bus(root)
    return [_card(address, place) for place, address in enumerate(bus) if _has_group(root, address)]


def _refuse_cards(environ: Mapping[str, str]) -> None:
    """Where there are no cards none is to be named: what is emulated would be told of in its name."""
    for variable in (CARDS_VARIABLE, *PCI_VARIABLES):
        if words := environ.get(variable, "").strip():
            raise DeviceError(
                f"cards are named, and {operating_system.in_words()} has none: {words[:80]}",
                where=variable,
                remedy=f"unset {variable}: without it the emulated device is tested; or give --device cpu",
            )


def _given(environ: Mapping[str, str]) -> list[str]:
    """The addresses the device plugin gave, by rank where ranks are given for the same cards."""
    for variable in PCI_VARIABLES:
        if words := _words(environ, variable):
            addresses = [_address(word, variable) for word in words]
            ranks = [environ.get(f"{RANK_VARIABLE}{place}", "").lower() for place in range(len(addresses))]
            return ranks if sorted(ranks) == sorted(addresses) else addresses
    return []


def _words(environ: Mapping[str, str], variable: str) -> list[str]:
    """The values of a comma-separated variable, in lower case.

    Raises:
        DeviceError: one stands twice.
    """
    words = [word.strip().lower() for word in environ.get(variable, "").split(",") if word.strip()]
    _refuse_twice(words, variable)
    return words


def _refuse_twice(names: Sequence[str], variable: str) -> None:
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise DeviceError(
            f"{twice[0]} stands there twice: {_listed(names)}",
            where=variable,
            remedy="name each card once; a card serves one worker at a time",
        )


def _address(word: str, variable: str) -> str:
    if not ADDRESS.fullmatch(word):
        raise DeviceError(
            f"{word!r} is no PCI address",
            where=variable,
            remedy="give addresses such as 0000:1a:00.0, separated by commas",
        )
    return word


def _chosen(word: str, given: Sequence[str], known: Sequence[str]) -> Card:
    """A card that SPYRE_DEVICES names: by its position, of which `known` says the address, or by address."""
    if word in given:
        return _card(word, given.index(word))
    if POSITION.fullmatch(word):
        place = int(word)
        return _card(known[place] if known else f"spyre:{place}", place)
    if given and ADDRESS.fullmatch(word):
        raise DeviceError(
            f"{word} is not one of the cards given: {_listed(given)}",
            where=CARDS_VARIABLE,
            remedy=f"choose among them, or unset {CARDS_VARIABLE}",
        )
    if ADDRESS.fullmatch(word):
        return Card(name=word, environment={CARDS_VARIABLE: word})
    raise DeviceError(
        f"{word!r} is neither a card's position nor its PCI address",
        where=CARDS_VARIABLE,
        remedy="give positions such as 0,1 or addresses such as 0000:1a:00.0, separated by commas",
    )


def _card(name: str, place: int) -> Card:
    return Card(name=name, environment={CARDS_VARIABLE: str(place)})


def _on_the_bus(root: Path) -> list[str]:
    """The address of every Spyre card, in their order."""
    devices = (root / "sys/bus/pci/devices").glob("*")
    return sorted(
        one.name for one in devices if (_number(one, "vendor"), _number(one, "device")) in SPYRE_IDS
    )


def _has_group(root: Path, address: str) -> bool:
    """Whether the card is with VFIO, and its group is ours to open."""
    group = root / "sys/bus/pci/devices" / address / "iommu_group"
    try:
        return (root / "dev/vfio" / group.resolve(strict=True).name).exists()
    except OSError:
        return False


def _number(device: Path, name: str) -> str:
    try:
        return (device / name).read_text(encoding="ascii").strip().lower()
    except (OSError, UnicodeDecodeError):
        return ""


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
