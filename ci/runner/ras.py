"""RAS events in what a process printed: which of them say that the card is at fault. Pure.

The runtime tells of an event as JSON, on one line of its log or as the text of an exception, now and then
spread over several lines:

    ERRR 03.08.2026 22:12:26.750593 [ras_base.hpp: 95] {"name":"RAS::PCI::PCIeFailure","severity":"ERROR"}

and says before which card it opened (`SEN:VFIO:TYPE1:0000:1a:00.0`). Not every event is the card's: one of
category `software`, or one that says that a test asked for what cannot be, is the test's failure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Events by name, whatever their category says (ResponseTimeout calls itself a matter of configuration).
# An entry that ends in `::` is a family; the first entry that fits decides.
EVENTS: tuple[tuple[str, bool], ...] = (
    # A process may map only so much; a test that leaks mappings uses them up on a card that is well.
    ("RAS::VFIO::MapDMAFailed", False),
    ("RAS::VFIO::DeviceOpenFail", True),
    ("RAS::CBRB::ResponseTimeout", True),
    ("RAS::PCI::BusFence", True),
    ("RAS::PCI::PCIeFailure", True),
    ("RAS::RUNTIMESCHEDULER::ComputeHardwareError", True),
    # Refused as asked for: alignment, sizes, modes.
    ("RAS::SCHEDULER::", False),
    ("RAS::CONFIGURATION::", False),
)
# What an event of no known name says of itself, in its key `category`; without one its family decides.
CATEGORIES = {"hardware": True, "software": False, "configuration": False}
HARDWARE_FAMILIES = ("RAS::PCI::", "RAS::VFIO::", "RAS::CBRB::")
# An event without a severity is the text of an exception, which nobody raises for less.
SEVERITIES = frozenset({"error", "fatal", "critical", ""})

_NAME = re.compile(r'"name"\s*:\s*"(RAS::[A-Za-z0-9_:]+)"')
_PLAIN = re.compile(r"(?<![\"\w:])RAS::[A-Za-z0-9_]+::[A-Za-z0-9_]+")
_OPENED = re.compile(r"SEN:VFIO:TYPE1:((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_OBJECT_LIMIT = 4000
_LINE_LIMIT = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class RasEvent:
    """An event that says that the card is at fault.

    Attributes:
        name: such as RAS::PCI::BusFence.
        line: what was printed, on one line.
        address: of the card that was opened before it; None where nothing says, or several were.
    """

    name: str
    line: str
    address: str | None = None

    def __str__(self) -> str:
        return self.line if self.address is None else f"{self.line} (card {self.address})"


def hardware_event(text: str) -> RasEvent | None:
    """The first event in `text` that says that the card is at fault; None where there is none."""
    if "RAS::" not in text:
        return None
    text = _COLOURS.sub("", text)
    for found in _NAME.finditer(text):
        start, end = _object(text, found.start(), found.end())
        body = text[start:end]
        if _key(body, "severity") in SEVERITIES and is_hardware(found[1], _key(body, "category")):
            return _event(text, found[1], start, end)
    for found in _PLAIN.finditer(text):
        # Named in passing, with nothing beside it: only what is known for certain counts.
        if dict(EVENTS).get(found[0], False):
            return _event(text, found[0], found.start(), found.end())
    return None


def is_hardware(name: str, category: str = "") -> bool:
    """Whether an event says that the card is at fault."""
    for known, hardware in EVENTS:
        if name == known or (known.endswith("::") and name.startswith(known)):
            return hardware
    return CATEGORIES.get(category, name.startswith(HARDWARE_FAMILIES))


def _event(text: str, name: str, start: int, end: int) -> RasEvent:
    opened = set(_OPENED.findall(text, 0, start))
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    line = " ".join(text[max(first, start - _LINE_LIMIT // 2) : last if last >= 0 else len(text)].split())
    return RasEvent(name=name, line=line[:_LINE_LIMIT], address=opened.pop() if len(opened) == 1 else None)


def _object(text: str, start: int, end: int) -> tuple[int, int]:
    """Where the JSON object around a key begins and ends; it holds no other."""
    opening = text.rfind("{", max(0, start - _OBJECT_LIMIT), start)
    closing = text.find("}", end, end + _OBJECT_LIMIT)
    return opening if opening >= 0 else start, closing + 1 if closing >= 0 else end


def _key(body: str, name: str) -> str:
    found = re.search(rf'"{name}"\s*:\s*"(\w*)"', body)
    return found[1].lower() if found else ""
