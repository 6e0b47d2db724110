"""Check the device and its cards: whose each is, and which may not be used.

Leases are read, and no card is opened without one.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ci.config import Settings
from ci.core.errors import SpyreCiError
from ci.core.operating_system import start_method
from ci.core.processes import ProcessIdentity, has_open, identify_process
from ci.core.text import counted, one_line, shell_line
from ci.core.withheld import without_job_secrets
from ci.device.environment import device_environment
from ci.doctor.finding import Finding, Level, fault, of_error, ok, warning
from ci.doctor.world import World, ask_module
from ci.runner.environment_info import back_end, refuse_silent_emulation, unallowed_ci
from ci.runner.health import HealthFiles, Rules
from ci.runner.inventory import ADDRESS, Card, inventory, is_real, present
from ci.runner.leases import Holder, Leases, shared_folder

DEVICE, CARDS = "device", "cards"
REAL, PSEUDO, EMULATED = "real", "pseudo", "emulated"
# The runner tests these and a PrivateUse1 back end, and nothing else.
_TORCHS_OWN = ("cuda", "xpu", "mps")
_SHOWN = 8
OPENED_S = 25.0
_RUN = "spyre-ci-doctor"
_NAME = 100
_BUS = "sys/bus/pci/devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """What would be tested.

    Attributes:
        name: of the device, as the settings have it.
        kind: of its cards: real, pseudo or emulated.
        cards: how many there are.
        back_end: what makes the device, as `back_end` has it.
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


def look_device(world: World, root: Path = Path("/")) -> list[Finding]:
    """What would be tested here, and whether the runner would refuse it."""
    model = world.settings.model
    name, found = model.device.name, back_end(world.environ)
    registered = [
        one.value.partition(":")[0] for one in importlib.metadata.entry_points(group="torch.backends")
    ]
    try:
        start_method(model.run.start_method)
        cards = inventory(world.environ, device=name, wanted=model.run.cards, cores=world.cores, root=root)
        in_ci = unallowed_ci(world.environ, allowed=model.device.emulated == "allow")
        refuse_silent_emulation(cards, world.environ, device=name, found=found, in_ci=in_ci)
    except SpyreCiError as error:
        return [of_error(DEVICE, Level.FAULT, error)]
    return judge_device(
        DeviceFacts(
            name=name, kind=kind_of(cards, root), cards=len(cards), back_end=found, registered=registered
        )
    )


def kind_of(cards: Sequence[Card], root: Path = Path("/")) -> str:
    """Real, pseudo or emulated.

    The operator's pseudo devices are handed to a pod as cards are, by address; the bus has none there.
    """
    if not is_real(cards):
        return EMULATED
    addresses = [card.name for card in cards if ADDRESS.fullmatch(card.name)]
    bus = root / _BUS
    if not bus.is_dir() or not addresses:
        return REAL
    return REAL if any((bus / one).exists() for one in addresses) else PSEUDO


def look_cards(world: World, *, opening: bool = False, root: Path = Path("/")) -> list[Finding]:
    """Whose each card is.

    Args:
        world: the outside world.
        opening: whether the free ones are opened, each with its lease taken as a run takes it.
        root: below which `sys` is.
    """
    model = world.settings.model
    if model.device.name == "cpu":
        return judge_cards([], kind=EMULATED, python=sys.executable)
    try:
        cards = present(
            world.environ, device=model.device.name, wanted=model.run.cards, cores=world.cores, root=root
        )
    except SpyreCiError:
        return judge_cards([], kind=EMULATED, python=sys.executable)  # what is wrong, `device` says
    folder = leases_folder(world.settings)
    # A folder that nobody has made yet holds no lease, and is no doctor's to make.
    leases = Leases(folder, run=_RUN, clock=world.clock) if opening or folder.is_dir() else None
    rules = Rules(strikes=model.run.card_strikes, bench_s=model.run.card_bench_s)
    health = HealthFiles(folder=folder, rules=rules)
    deadline = world.monotonic() + OPENED_S
    facts = []
    for card in cards:
        left_s = deadline - world.monotonic()
        # Those that no time is left for stay closed; each may take what is left.
        opener = _opener(world, left_s) if opening and left_s > 0 else None
        shut = shut_node(card, root)
        one = facts_of(card, leases, health, now=world.clock(), open_card=None if shut else opener)
        facts.append(replace(one, shut=shut))
    return judge_cards(facts, kind=kind_of(cards, root), python=sys.executable)


def shut_node(card: Card, root: Path = Path("/"), access: Callable[[Path], bool] | None = None) -> str:
    """The file by which a real card is opened where this user may not; empty: he may, or nobody knows.

    Args:
        card: the card.
        root: below which `dev` and `sys` are.
        access: whether a file may be read and written.
    """
    if not ADDRESS.fullmatch(card.name):
        return ""
    try:
        group = (root / _BUS / card.name / "iommu_group").resolve(strict=True).name
    except OSError:
        return ""
    node = root / "dev" / "vfio" / group
    may = access or (lambda path: os.access(path, os.R_OK | os.W_OK))
    return str(node) if node.exists() and not may(node) else ""


def leases_folder(settings: Settings) -> Path:
    """Where the runs of this host note whose a card is."""
    named = settings.model.run.leases
    return shared_folder() if named is None else settings.resolve(named)


def facts_of(
    card: Card,
    leases: Leases | None,
    health: HealthFiles,
    *,
    now: float,
    open_card: Callable[[Card], str] | None = None,
) -> CardFacts:
    """What is known of a card; it is opened only under its lease, and let go again.

    Args:
        card: the card.
        leases: of this host; None where there are none yet.
        health: what cards have done.
        now: seconds since the epoch.
        open_card: opens it and says why it does not work; None: it is left alone.
    """
    lease = health.folder / f"{card.name}.lease"
    try:
        known = health.read(card.name, now)
        benched, trouble = (str(known) if known.benched_until is not None else ""), ""
    except SpyreCiError as error:
        benched, trouble = "", error.placed
    opened, holding = None, None
    if leases is not None and open_card is not None and not benched:
        if leases.take(card.name):
            try:
                opened = open_card(card)
            finally:
                leases.release(card.name)
        else:
            holding = holding_of(leases.holder(card.name), lease)
    elif leases is not None and leases.is_taken(card.name):
        holding = holding_of(leases.holder(card.name), lease)
    return CardFacts(
        name=card.name, lease=str(lease), holding=holding, benched=benched, trouble=trouble, opened=opened
    )


def holding_of(
    holder: Holder | None,
    lease: Path,
    *,
    where: Callable[[int], ProcessIdentity] = identify_process,
    opens: Callable[[int, Path], bool] = has_open,
) -> Holding:
    """Who holds a card, and whether his process is the one of that number, seen from here.

    Anybody may write a lease's file, and could name somebody else's process: one that does not have the file
    open is not taken for the holder.

    Args:
        holder: as the lease says; None: it does not.
        lease: its file.
        where: of a process id of this place.
        opens: whether a process has a file open, as far as this user may see it.
    """
    if holder is None:
        return Holding()
    about = Holding(
        run=one_line(holder.run, _NAME), pid=holder.pid, user=one_line(holder.user, _NAME), since=holder.since
    )
    here, there = where(holder.pid), holder.where
    if there is None:
        return about
    about = replace(about, host=one_line(there.host, _NAME))
    if not (there.namespace and there.started) or (here.host, here.namespace) != (
        there.host,
        there.namespace,
    ):
        return about
    if here.started != there.started:
        return replace(about, ended=True)
    return replace(about, same=opens(holder.pid, lease))


def _opener(world: World, limit_s: float) -> Callable[[Card], str]:
    """Opens a card in a process of its own, as a worker's check does."""
    device = world.settings.model.device
    environ = {
        **without_job_secrets(world.environ),
        **device_environment(device.name, device.refuse_ops, device.refuse_dtypes),
    }

    def opened(card: Card) -> str:
        there = {**environ, **card.environment}
        told = ask_module(world, "ci.doctor.opened", device.name, limit_s=limit_s, environ=there)
        return told.why or str(told.row.get("why", ""))

    return opened
