"""Check the device and its cards: which are free, who holds the others, and which are out of use.

Leases are read, and no card is opened without one.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from ci.config import Settings
from ci.core.errors import DeviceError, SpyreCiError
from ci.core.operating_system import start_method
from ci.core.text import counted, one_line, shell_line
from ci.core.withheld import without_job_secrets
from ci.device.environment import device_environment
from ci.doctor.finding import Finding, fault, of_error, ok, warning
from ci.doctor.machine import Machine
from ci.runner.compatibility import back_end_missing, registered_back_ends
from ci.runner.environment_info import back_end, installed_torch, refuse_silent_emulation, unallowed_ci
from ci.runner.health import Health, HealthFiles
from ci.runner.inventory import ADDRESS, EMULATED_DEVICE, Card, inventory, is_real, present
from ci.runner.leases import Leases, shared_folder
from ci.runner.prepared_parent import ACCELERATORS, not_tested

OPENED_S = 25.0
FREE, WORKS, IN_USE, OUT, FAILING = "free", "works", "in use", "out of use", "failing"
_SHOWN = 8
_BUS = "sys/bus/pci/devices"
_PSEUDO = "remove pseudoDevice from the operator policy's experimentalMode to test cards"


def check_device(machine: Machine) -> list[Finding]:
    """What would be tested, and whether the runner would refuse it."""
    model, name = machine.settings.model, machine.settings.model.device.name
    found = back_end(machine.environ)
    try:
        if name in ACCELERATORS:
            version = installed_torch().version
            refused = not_tested(name, version, built="+cpu" not in version)
            return [fault(refused, "set device.name, or --device, to spyre, cpu or your own")]
        start_method(model.run.start_method)
        cards = _cards(machine, inventory)
        in_ci = unallowed_ci(machine.environ, allowed=model.device.emulated == "allow")
        refuse_silent_emulation(cards, machine.environ, device=name, found=found, in_ci=in_ci)
    except SpyreCiError as error:
        return [of_error(error)]
    if (missing := back_end_missing(name, machine.environ)) is not None:
        # Only `spyre` can be emulated.
        return [(warning if name == "spyre" else fault)(*missing)]
    return [_device(name, found, cards, machine.root)]


def _device(name: str, found: str, cards: list[Card], root: Path) -> Finding:
    """A device that a back end makes, or the control."""
    kind = kind_of(cards, root)
    if name == "cpu":
        return ok("cpu, the control: no card is used")
    if name != "spyre":
        return ok(f"{name} by {', '.join(registered_back_ends())}")
    if kind == "pseudo":
        message = f"spyre by {found}, {counted(len(cards), 'pseudo device')} in place of cards"
        return warning(message, _PSEUDO)
    return ok(f"spyre by {found}, {'real cards' if kind == 'real' else 'no card'}")


def _cards(machine: Machine, among: Callable[..., list[Card]]) -> list[Card]:
    run, device = machine.settings.model.run, machine.settings.model.device.name
    return among(machine.environ, device=device, wanted=run.cards, cores=machine.cores, root=machine.root)


def kind_of(cards: list[Card], root: Path) -> str:
    """Real, pseudo or emulated.

    The operator's pseudo devices are given to a pod as cards are, by address; the bus has none there.
    """
    addresses = [card.name for card in cards if ADDRESS.fullmatch(card.name)]
    if not is_real(cards):
        return "emulated"
    bus = root / _BUS
    missing = bus.is_dir() and addresses and not any((bus / one).exists() for one in addresses)
    return "pseudo" if missing else "real"


def check_cards(machine: Machine) -> Iterator[Finding]:
    """How many cards a run could have, and a line for each that it could not."""
    name = machine.settings.model.device.name
    if name == "cpu":
        yield ok("not needed by the device cpu")
        return
    try:
        cards = _cards(machine, present)
        kind = kind_of(cards, machine.root)
        # Only `spyre` is emulated; of another device without cards of ours workers count.
        noun = f"{name} worker" if kind == "emulated" and name != EMULATED_DEVICE else f"{kind} card"
        if noun.endswith("worker") and back_end_missing(name, machine.environ) is not None:
            raise DeviceError("nothing makes this device")
    except SpyreCiError:
        yield ok("not checked: see device")
        return
    folder = leases_folder(machine.settings)
    # A folder that no run has made yet holds no lease, and is not the doctor's to make.
    makes = machine.open_cards or folder.is_dir()
    leases = Leases(folder, run="spyre-ci-doctor", clock=machine.clock) if makes else None
    health = HealthFiles(folder=folder)
    deadline = time.monotonic() + OPENED_S
    states: Counter[str] = Counter()
    each: list[Finding] = []
    for card in cards:
        state, found = _check_card(machine, card, leases, health, deadline)
        states[state] += 1
        each += found
    yield _summary(counted(len(cards), noun), states)
    yield from each[:_SHOWN]
    if len(each) > _SHOWN:
        yield ok(f"{len(each) - _SHOWN} more such lines are not shown")


def _summary(cards: str, states: Counter[str]) -> Finding:
    free = states[FREE] + states[WORKS]
    parts = [f"{count} {state}" for state, count in states.items() if state not in {FREE, WORKS}]
    works = f", of which {states[WORKS]} opened and computed correctly" if states[WORKS] else ""
    message = f"{cards}: {', '.join([f'{free} free{works}', *parts])}"
    if free:
        return ok(message)
    if states[IN_USE]:
        return warning(f"{message}; a run waits until one is free", "wait, or ask who uses them: see below")
    return fault(f"{message}; no run can start", "fix what is listed below for each card")


def _check_card(
    machine: Machine, card: Card, leases: Leases | None, health: HealthFiles, deadline: float
) -> tuple[str, list[Finding]]:
    """The state of a card, and what is to be said of it; it is opened under its lease alone."""
    known, found = Health(), []
    try:
        known = health.read(card.name, machine.clock())
    except SpyreCiError as error:
        remedy = "delete that file; the card is checked before it is used"
        found.append(warning(f"{card.name}: {error.placed}", remedy))
    if leases is not None and leases.is_taken(card.name):
        return IN_USE, [*found, _in_use(card.name, leases, health.folder)]
    if known.benched_until is not None:
        until = datetime.fromtimestamp(known.benched_until).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        message = f"{card.name} is out of use until {until}: {known.reason}"
        return OUT, [*found, warning(message, "wait until then, or have the card checked")]
    if node := closed_node(card, machine.root):
        message = f"{card.name}: this user may not open {node}"
        found.append(fault(message, f"join its group: {shell_line(['ls', '-l', '--', node])}"))
        return FAILING, found
    left_s = deadline - time.monotonic()
    if not machine.open_cards or leases is None or left_s <= 0 or not leases.take(card.name):
        return FREE, found
    try:
        why = _opened(machine, card, left_s)
    finally:
        leases.release(card.name)
    if not why:
        return WORKS, found
    remedy = "see the log of its host; check all cards: spyre-ci job preflight"
    return FAILING, [*found, fault(f"{card.name} does not work: {why}", remedy)]


def _in_use(card: str, leases: Leases, folder: Path) -> Finding:
    """Who holds a card, by its lease; as anybody may write there, no remedy kills that process."""
    holder = leases.holder(card)
    who = "its lease does not say by whom" if holder is None else one_line(str(holder))
    show = shell_line(["fuser", "-v", str(folder / f"{card}.lease")])
    return warning(f"{card} is in use: {who}", f"wait for it; processes that hold it: {show}")


def closed_node(card: Card, root: Path) -> str:
    """The file by which a real card is opened, where this user may not; else empty."""
    if not ADDRESS.fullmatch(card.name):
        return ""
    try:
        group = (root / _BUS / card.name / "iommu_group").resolve(strict=True).name
    except OSError:
        return ""
    node = root / "dev" / "vfio" / group
    return str(node) if node.exists() and not os.access(node, os.R_OK | os.W_OK) else ""


def leases_folder(settings: Settings) -> Path:
    """Where the runs of this host record whose a card is."""
    named = settings.model.run.leases
    return shared_folder() if named is None else settings.resolve(named)


def _opened(machine: Machine, card: Card, limit_s: float) -> str:
    """Why a card does not compute, asked in a process of its own; empty where it does."""
    device = machine.settings.model.device
    env = {
        **without_job_secrets(machine.environ),
        **device_environment(device.name, device.refuse_ops, device.refuse_dtypes),
        **card.environment,
    }
    found, why = machine.probe("card", device.name, limit_s=limit_s, env=env)
    return why or str(found.get("why", ""))
