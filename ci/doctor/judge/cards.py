"""The device and its cards: what would be tested, whose each card is, and which may not be used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ci.core.text import counted, shell_line
from ci.doctor.finding import Finding, fault, ok, warning

DEVICE, CARDS = "device", "cards"
REAL, PSEUDO, EMULATED = "real", "pseudo", "emulated"
# The runner tests these and a PrivateUse1 back end, and nothing else.
_TORCHS_OWN = ("cuda", "xpu", "mps")
_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """What would be tested.

    Attributes:
        name: of the device, as the settings have it.
        kind: of its cards: real, pseudo or emulated.
        cards: how many there are.
        back_end: what makes the device, as `ci.runner.back_end` has it.
        registered: packages that register themselves with torch (entry points `torch.backends`).
    """

    name: str
    kind: str = EMULATED
    cards: int = 0
    back_end: str = ""
    registered: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Who holds a card.

    Attributes:
        run: the run's id; empty where the lease does not say whose it is.
        pid: of its supervisor.
        user: whose process that is.
        since: seconds since the epoch.
        host: it is on; empty: unknown.
        same: whether that pid means that very process, seen from here.
        ended: whether it was a process of this place that has ended, and what it started holds the card.
    """

    run: str = ""
    pid: int = 0
    user: str = ""
    since: float = 0
    host: str = ""
    same: bool = False
    ended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFacts:
    """One card.

    Attributes:
        name: of it.
        lease: the file that is locked by whoever has it.
        holding: who holds it; None: nobody.
        benched: until when and why it is not used; empty: it plays.
        trouble: what is known of it cannot be read.
        shut: the file by which it is opened, which this user may not open; empty: he may, or nobody knows.
        opened: None: it was not opened; else why it does not work, empty where it does.
    """

    name: str
    lease: str = ""
    holding: Holding | None = None
    benched: str = ""
    trouble: str = ""
    shut: str = ""
    opened: str | None = None


def judge_device(facts: DeviceFacts) -> list[Finding]:
    """What would be tested, and whether the runner would have it."""
    if facts.name == "cpu":
        return [ok(DEVICE, "cpu, the control: no card is used")]
    if facts.name in _TORCHS_OWN:
        return [
            fault(
                DEVICE,
                f"{facts.name} is torch's own, and the runner tests back ends of PrivateUse1, or the cpu",
                "set device.name to spyre, cpu or your back end's name",
            )
        ]
    if facts.name != "spyre":
        return [_other(facts)]
    if facts.kind == PSEUDO:
        said = f"spyre, {counted(facts.cards, 'pseudo device')} that stand in for cards, {facts.back_end}"
        return [warning(DEVICE, said, "take pseudoDevice out of the policy's experimentalMode to test cards")]
    which = "real cards" if facts.kind == REAL else "emulated, no card"
    return [ok(DEVICE, f"spyre, {which}, by {facts.back_end}")]


def judge_cards(cards: Sequence[CardFacts], *, kind: str, python: str) -> list[Finding]:
    """Whose cards are, which are benched, and what those came to that were opened.

    Args:
        cards: of this host.
        kind: real, pseudo or emulated.
        python: the interpreter, for remedies.
    """
    if not cards:
        return [ok(CARDS, "none are used")]
    held = [one for one in cards if one.holding is not None]
    benched = [one for one in cards if one.benched and one.holding is None]
    sick = [one for one in cards if one.opened or (one.shut and one.holding is None)]
    free = len(cards) - len(held) - len(benched) - len([one for one in sick if not one.benched])
    well = [one for one in cards if one.opened == ""]
    parts = [counted(len(cards), f"{kind} card"), f"{free} free"]
    parts += [f"{len(held)} held"] * bool(held) + [f"{len(benched)} benched"] * bool(benched)
    parts += [f"{len(well)} opened and well"] * bool(well) + [f"{len(sick)} sick"] * bool(sick)
    said = ", ".join(parts)
    if free:
        found = [ok(CARDS, said)]
    elif held:
        found = [warning(CARDS, f"{said}: a run waits until one is free", "wait, or see below whom to ask")]
    else:
        found = [fault(CARDS, f"{said}: no run can have one", "see below what is wrong with each")]
    each = [one for card in cards for one in _of_card(card, python)]
    left = len(each) - _SHOWN
    return [*found, *each[:_SHOWN], *([ok(CARDS, f"and {left} more such lines")] if left > 0 else [])]


def _of_card(card: CardFacts, python: str) -> list[Finding]:
    found = []
    if card.opened:
        check = shell_line([python, "-m", "ci.cli", "job", "preflight"])
        found.append(
            fault(
                CARDS, f"{card.name} does not work: {card.opened}", f"look at its host's log, then: {check}"
            )
        )
    if card.shut:
        look = shell_line(["ls", "-l", "--", card.shut])
        said = f"{card.name} cannot be opened by this user: {card.shut} is another's"
        found.append(fault(CARDS, said, f"have its group let you: {look}"))
    if card.trouble:
        found.append(
            warning(CARDS, f"{card.name}: {card.trouble}", "delete that file; the card is checked anyway")
        )
    if card.holding is not None:
        found.append(_held(card, card.holding))
    elif card.benched:
        found.append(warning(CARDS, f"{card.name} is {card.benched}", "wait until then, or see to the card"))
    return found


def _held(card: CardFacts, holding: Holding) -> Finding:
    look = shell_line(["fuser", "-v", card.lease])
    if not holding.run:
        return warning(CARDS, f"{card.name} is held, and its lease does not say by whom", f"find out: {look}")
    since = datetime.fromtimestamp(holding.since).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    host = f" on {holding.host}" if holding.host else ""
    who = f"run {holding.run} (process {holding.pid} of {holding.user}{host})"
    said = f"{card.name} is held by {who} since {since}"
    if holding.ended:
        return warning(
            CARDS, f"{said}; that process has ended, and what it started goes on", f"find it: {look}"
        )
    if holding.same:
        return warning(
            CARDS, said, f"wait for it; where it is stuck: {shell_line(['kill', str(holding.pid)])}"
        )
    return warning(CARDS, said, f"ask {holding.user}{host}: from here nobody can tell that process")


def _other(facts: DeviceFacts) -> Finding:
    if not facts.registered:
        return fault(
            DEVICE,
            f"no package here registers the device {facts.name} with torch (entry point torch.backends)",
            "install the back end's package into this environment, or set device.name",
        )
    return ok(DEVICE, f"{facts.name}, by {', '.join(facts.registered)}")
