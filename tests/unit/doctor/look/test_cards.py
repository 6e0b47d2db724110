"""Leases are read and never taken in passing; a card is opened under its lease and in no other way."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ci.doctor.finding import Level
from ci.doctor.look.cards import facts_of, holding_of, kind_of, leases_folder, look_cards, look_device
from ci.errors import CommandError
from ci.runner.cards import Card
from ci.runner.health import HealthFiles
from ci.runner.inventory import present
from ci.runner.leases import Holder, Leases
from ci.runner.whereabouts import Whereabouts, whereabouts

from .conftest import NOW, MakeWorld

HERE = whereabouts(os.getpid())
HOLDER = Holder(pid=os.getpid(), run="nightly", user="ann", since=NOW, where=HERE)
ADDRESS = "0000:1a:00.0"


def leases(folder: Path, run: str = "nightly") -> Leases:
    return Leases(folder, run=run, clock=lambda: NOW)


def test_this_very_process_is_known_again() -> None:
    found = holding_of(HOLDER)
    assert (found.same, found.ended, found.host) == (True, False, HERE.host)


@pytest.mark.parametrize(
    ("where", "same", "ended"),
    [
        (None, False, False),
        (replace(HERE, host="elsewhere"), False, False),
        (replace(HERE, namespace="pid:[1]"), False, False),
        (replace(HERE, namespace=""), False, False),
        # The number is another process's now: the one that took the card has ended.
        (replace(HERE, started="1"), False, True),
    ],
)
def test_a_number_that_may_mean_another_process_is_not_taken_for_that_one(
    where: Whereabouts | None, same: bool, ended: bool
) -> None:
    found = holding_of(replace(HOLDER, where=where))
    assert (found.same, found.ended) == (same, ended)
    assert holding_of(None).run == ""


def test_where_the_system_does_not_say_nobody_is_the_same() -> None:
    def nowhere(_: int) -> Whereabouts:
        return Whereabouts(host=HERE.host)

    found = holding_of(replace(HOLDER, where=nowhere(1)), nowhere)
    assert (found.same, found.ended) == (False, False)


def test_a_lease_says_where_its_process_is(tmp_path: Path) -> None:
    one = leases(tmp_path)
    one.take("c")
    holder = leases(tmp_path, "other").holder("c")
    assert holder is not None
    assert holder.where == HERE
    row = json.loads((tmp_path / "c.lease").read_text())
    broken: object
    for broken in (1, {"host": "h"}, [], "x"):
        (tmp_path / "c.lease").write_text(json.dumps(row | {"where": broken}))
        holder = leases(tmp_path, "other").holder("c")
        assert holder is not None
        assert holder.where is None


def test_where_nobody_ran_yet_no_folder_is_made(make_world: MakeWorld, tmp_path: Path) -> None:
    world = make_world({}, run__leases=tmp_path / "none")
    assert look_cards(world)[0].said == "2 emulated cards, 2 free"
    assert not (tmp_path / "none").exists()


def test_a_held_card_is_told_and_left_alone(make_world: MakeWorld, tmp_path: Path) -> None:
    held = leases(tmp_path / "l")
    held.take("emulated:0")
    world = make_world({}, run__leases=tmp_path / "l")
    for opening in (False, True):
        # Only the free one is opened: one answer is all there is.
        told = replace(world, processes=make_world({}, '{"why": ""}').processes)
        first, second = look_cards(told, opening=opening)
        assert first.said.startswith("2 emulated cards, 1 free, 1 held")
        assert second.said.startswith(f"emulated:0 is held by run nightly (process {os.getpid()} of ")
        assert second.remedy == f"wait for it; where it is stuck: kill {os.getpid()}"
    assert Leases(tmp_path / "l", run="x", clock=lambda: NOW).take("emulated:1")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ('{"why": "RAS::broken"}', "emulated:0 does not work: RAS::broken"),
        ("nonsense", "ended with code 0 and said nothing"),
        (3, "code 3"),
        (CommandError("took longer than 25 s: python"), "took longer than its time"),
    ],
)
def test_a_card_that_does_not_work_is_a_fault_and_let_go(
    make_world: MakeWorld, tmp_path: Path, answer: str | int | CommandError, words: str
) -> None:
    world = make_world({}, answer, cores=1, run__leases=tmp_path / "l")
    found = look_cards(world, opening=True)
    assert [one.level for one in found] == [Level.FAULT, Level.FAULT]
    assert words in found[1].said
    assert leases(tmp_path / "l", "next").take("emulated:0")


def test_the_lease_is_held_while_a_card_is_open_and_let_go_whatever_happens(tmp_path: Path) -> None:
    mine, other = leases(tmp_path, "doctor"), leases(tmp_path, "other")
    card = Card(name="c", environment={})

    def opened(_: Card) -> str:
        assert not other.take("c")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        facts_of(card, mine, HealthFiles(folder=tmp_path), now=NOW, open_card=opened)
    assert other.take("c")


def test_a_benched_card_is_not_opened(make_world: MakeWorld, tmp_path: Path) -> None:
    folder = tmp_path / "l"
    folder.mkdir()
    health = {"schema": "spyre-ci/card-health/1", "card": "emulated:0", "benched_until": NOW + 60,
              "strikes": [{"at": NOW, "reason": "RAS::x", "run": "r"}]}  # fmt: skip
    (folder / "emulated:0.health.json").write_text(json.dumps(health))
    (folder / "emulated:1.health.json").write_text("{")
    first, benched, trouble = look_cards(make_world({}, run__leases=folder))
    assert first.said == "2 emulated cards, 1 free, 1 benched"
    assert benched.said.startswith("emulated:0 is benched until ")
    assert (trouble.level, "emulated:1.health.json" in trouble.said) == (Level.WARNING, True)
    look_cards(make_world({}, '{"why": ""}', run__leases=folder), opening=True)


def test_the_folder_of_leases_is_the_runners(make_world: MakeWorld, tmp_path: Path) -> None:
    assert leases_folder(make_world().settings).name == "spyre-ci-cards"
    assert leases_folder(make_world(run__leases="l").settings) == tmp_path / "l"


def test_cards_that_are_not_on_the_bus_are_pseudo_devices(tmp_path: Path) -> None:
    environ = {"PCIDEVICE_IBM_COM_SPYRE_PF": ADDRESS}
    cards = present(environ, device="spyre", wanted=0, cores=1, root=tmp_path)
    assert kind_of(cards, tmp_path) == "real"
    bus = tmp_path / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    assert kind_of(cards, tmp_path) == "pseudo"
    (bus / ADDRESS).mkdir()
    assert kind_of(cards, tmp_path) == "real"
    assert kind_of(present({}, device="spyre", wanted=0, cores=1, root=tmp_path), tmp_path) == "emulated"


@pytest.mark.parametrize(
    ("environ", "flags", "level", "words"),
    [
        ({}, {}, Level.OK, "emulated, no card"),
        ({}, {"device__name": "cpu"}, Level.OK, "the control"),
        ({}, {"device__name": "cuda"}, Level.FAULT, "torch's own"),
        ({}, {"device__name": "nobody"}, Level.FAULT, "no package here registers the device nobody"),
        ({"SPYRE_CI_EMULATE": "0"}, {}, Level.FAULT, "torch_spyre is not installed here"),
        ({"SPYRE_DEVICES": "x"}, {}, Level.FAULT, "SPYRE_DEVICES"),
        ({"PCIDEVICE_IBM_COM_SPYRE_PF": ADDRESS, "SPYRE_CI_EMULATE": "1"}, {}, Level.OK, "emulated"),
        ({"PCIDEVICE_IBM_COM_SPYRE_PF": ADDRESS}, {}, Level.FAULT, "in the name of 0000:1a:00.0"),
        ({"PCIDEVICE_IBM_COM_SPYRE_PF": ADDRESS}, {"run__cards": 2}, Level.FAULT, "2 cards wanted, 1 there"),
    ],
)
def test_the_device_is_what_the_runner_would_test(  # noqa: PLR0917  # a row of the table
    make_world: MakeWorld,
    tmp_path: Path,
    environ: dict[str, str],
    flags: dict[str, object],
    level: Level,
    words: str,
) -> None:
    (found,) = look_device(make_world(environ, **flags), root=tmp_path)
    assert found.level is level, found
    assert words in found.said
