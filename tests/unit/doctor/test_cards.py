"""What would be tested, and whose each card is.

Leases are read and never taken in passing; a card is opened under its lease and in no other way.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ci.core import operating_system
from ci.core.errors import CommandError
from ci.core.processes import ProcessIdentity, identify_process
from ci.doctor.cards import (
    CardFacts,
    DeviceFacts,
    Holding,
    facts_of,
    holding_of,
    judge_cards,
    judge_device,
    kind_of,
    leases_folder,
    look_cards,
    look_device,
    shut_node,
)
from ci.doctor.finding import Finding, Level
from ci.runner.health import HealthFiles
from ci.runner.inventory import Card, present
from ci.runner.leases import Holder, Leases

from .conftest import NOW, MakeWorld

HERE = identify_process(os.getpid())
HOLDER = Holder(pid=os.getpid(), run="nightly", user="ann", since=NOW, where=HERE)
ADDRESS = "0000:1a:00.0"


# Nobody has cards elsewhere, or says as much of processes.
only_linux = pytest.mark.skipif(not operating_system.is_linux(), reason="it is not Linux")
# Where a process is that Linux tells of.
THERE = ProcessIdentity(host="here", namespace="pid:[9]", started="77")
HOLDING = Holding(run="nightly-7", pid=4711, user="ann", since=1_785_000_000, host="node9")
FREE = CardFacts(name="0000:1a:00.0", lease="/run/lock/my cards/0000:1a:00.0.lease")


@pytest.fixture
def on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operating_system, "name", lambda: "linux")


def leases(folder: Path, run: str = "nightly") -> Leases:
    return Leases(folder, run=run, clock=lambda: NOW)


def opens(_: int, __: Path) -> bool:
    return True


@only_linux
def test_this_very_process_is_known_again(tmp_path: Path) -> None:
    one = leases(tmp_path)
    one.take("c")
    holder = one.holder("c")
    found = holding_of(holder, tmp_path / "c.lease")
    assert (found.same, found.ended, found.host) == (True, False, HERE.host)
    one.release("c")
    assert not holding_of(holder, tmp_path / "c.lease").same


def test_a_process_that_somebody_else_wrote_into_the_lease_is_not_taken_for_the_holder(
    tmp_path: Path,
) -> None:
    """The file is everybody's: what stands in it could have a stranger's process killed."""
    (tmp_path / "c.lease").touch()
    found = holding_of(HOLDER, tmp_path / "c.lease")
    assert (found.same, found.ended) == (False, False)


@pytest.mark.parametrize(
    ("where", "same", "ended"),
    [
        (THERE, True, False),
        (None, False, False),
        (replace(THERE, host="elsewhere"), False, False),
        (replace(THERE, namespace="pid:[1]"), False, False),
        (replace(THERE, namespace=""), False, False),
        (replace(THERE, started=""), False, False),
        # The number is another process's now: the one that took the card has ended.
        (replace(THERE, started="1"), False, True),
    ],
)
def test_a_number_that_may_mean_another_process_is_not_taken_for_that_one(
    tmp_path: Path, where: ProcessIdentity | None, same: bool, ended: bool
) -> None:
    holder = replace(HOLDER, where=where)
    found = holding_of(holder, tmp_path / "c.lease", where=lambda _: THERE, opens=opens)
    assert (found.same, found.ended) == (same, ended)
    assert holding_of(None, tmp_path).run == ""


def test_where_the_system_does_not_say_nobody_is_the_same(tmp_path: Path) -> None:
    def nowhere(_: int) -> ProcessIdentity:
        return ProcessIdentity(host=HERE.host)

    found = holding_of(replace(HOLDER, where=nowhere(1)), tmp_path, where=nowhere, opens=opens)
    assert (found.same, found.ended) == (False, False)


@pytest.mark.parametrize("pid", [-1, 0, 2**31])
def test_a_number_that_is_no_process_is_never_one_to_be_killed(tmp_path: Path, pid: int) -> None:
    """`kill -1` would end everything one has."""
    for where in (HERE, replace(HERE, started="")):
        assert not holding_of(replace(HOLDER, pid=pid, where=where), tmp_path, opens=opens).same


def test_names_of_a_lease_stay_names(tmp_path: Path) -> None:
    found = holding_of(replace(HOLDER, user="a\nb\x1b[2J" + "x" * 4000), tmp_path)
    assert found.user.startswith("a b")
    assert len(found.user) == 100


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


@only_linux
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
    assert benched.said.startswith("emulated:0 is out of use until ")
    assert (trouble.level, "emulated:1.health.json" in trouble.said) == (Level.WARNING, True)
    look_cards(make_world({}, '{"why": ""}', run__leases=folder), opening=True)


def test_the_folder_of_leases_is_the_runners(make_world: MakeWorld, tmp_path: Path) -> None:
    assert leases_folder(make_world().settings).name == "spyre-ci-cards"
    assert leases_folder(make_world(run__leases="l").settings) == tmp_path / "l"


@pytest.mark.usefixtures("on_linux")
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


@pytest.mark.usefixtures("on_linux")
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
        ({"PCIDEVICE_IBM_COM_SPYRE_PF": ADDRESS}, {"run__cards": 2}, Level.FAULT, "2 cards requested"),
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


def test_a_way_to_begin_processes_that_a_run_refuses_is_told(
    make_world: MakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world({}, run__start_method="fork")
    monkeypatch.setattr(operating_system, "name", lambda: "linux")
    assert look_device(world, root=tmp_path)[0].level is Level.OK
    monkeypatch.setattr(operating_system, "name", lambda: "darwin")
    (found,) = look_device(world, root=tmp_path)
    assert (found.level, found.said.partition(":")[0]) == (Level.FAULT, "run.start_method")
    assert found.remedy.startswith("give spawn")


def test_a_card_that_this_user_may_not_open_is_known_by_its_file(tmp_path: Path) -> None:
    card = Card(name=ADDRESS, environment={})
    assert shut_node(card, tmp_path) == ""
    group = tmp_path / "sys/kernel/iommu_groups/17"
    device = tmp_path / "sys/bus/pci/devices" / ADDRESS
    for folder in (group, device, tmp_path / "dev/vfio"):
        folder.mkdir(parents=True)
    (device / "iommu_group").symlink_to(group)
    assert shut_node(card, tmp_path, access=lambda _: False) == ""
    (tmp_path / "dev/vfio/17").touch()
    assert shut_node(card, tmp_path, access=lambda _: False) == str(tmp_path / "dev/vfio/17")
    assert shut_node(card, tmp_path) == ""
    assert shut_node(Card(name="emulated:0", environment={}), tmp_path, access=lambda _: False) == ""


def judged(*cards: CardFacts, kind: str = "real") -> list[Finding]:
    return judge_cards(cards, kind=kind, python="/e/python")


@pytest.mark.parametrize(
    ("facts", "level", "words"),
    [
        (DeviceFacts(name="cpu"), Level.OK, "the control"),
        (DeviceFacts(name="spyre", back_end="the emulated device"), Level.OK, "emulated, no card"),
        (
            DeviceFacts(name="spyre", kind="real", back_end="torch_spyre 1"),
            Level.OK,
            "real cards, by torch_spyre",
        ),
        (DeviceFacts(name="spyre", kind="pseudo", cards=8), Level.WARNING, "8 pseudo devices"),
        (DeviceFacts(name="cuda"), Level.FAULT, "cuda is torch's own"),
        (DeviceFacts(name="other"), Level.FAULT, "no package here registers the device other"),
        (DeviceFacts(name="other", registered=["torch_other"]), Level.OK, "other, by torch_other"),
    ],
)
def test_the_device_is_one_the_runner_would_have(facts: DeviceFacts, level: Level, words: str) -> None:
    (found,) = judge_device(facts)
    assert found.level is level
    assert words in found.said


def test_cards_are_counted_by_what_may_be_done_with_them() -> None:
    held, benched = replace(FREE, holding=HOLDING), replace(FREE, benched="benched until noon: RAS")
    found = judged(FREE, held, benched)
    assert (found[0].level, found[0].said) == (Level.OK, "3 real cards, 1 free, 1 held, 1 benched")
    assert [one.level for one in found[1:]] == [Level.WARNING, Level.WARNING]


def test_where_all_are_held_a_run_waits_and_where_none_plays_it_cannot_begin() -> None:
    assert judged(replace(FREE, holding=HOLDING))[0].level is Level.WARNING
    assert judged(replace(FREE, benched="benched until noon"))[0].level is Level.FAULT
    assert judged()[0].said == "none are used"


def test_who_holds_a_card_is_said_with_host_process_run_and_time() -> None:
    said = judged(replace(FREE, holding=HOLDING))[1].said
    assert said.startswith("0000:1a:00.0 is held by run nightly-7 (process 4711 of ann on node9) since 20")


@pytest.mark.parametrize(
    ("holding", "remedy"),
    [
        (replace(HOLDING, same=True), "wait for it; where it is stuck: kill 4711"),
        (HOLDING, "ask ann on node9: from here nobody can tell that process"),
        (replace(HOLDING, host=""), "ask ann: from here nobody can tell that process"),
        (replace(HOLDING, ended=True), "find it: fuser -v '/run/lock/my cards/0000:1a:00.0.lease'"),
        (Holding(), "find out: fuser -v '/run/lock/my cards/0000:1a:00.0.lease'"),
    ],
)
def test_killing_is_advised_only_where_the_number_means_that_process(holding: Holding, remedy: str) -> None:
    found = judged(replace(FREE, holding=holding))[1]
    assert (found.level, found.remedy) == (Level.WARNING, remedy)


def test_a_card_that_was_opened_and_does_not_work_is_a_fault() -> None:
    found = judged(FREE, replace(FREE, name="b", opened="RAS::x"), replace(FREE, name="c", opened=""))
    assert found[0].said == "3 real cards, 2 free, 1 opened and well, 1 sick"
    assert [(one.level, one.said) for one in found[1:]] == [(Level.FAULT, "b does not work: RAS::x")]


def test_a_file_of_strikes_that_cannot_be_read_is_a_warning() -> None:
    (_, found) = judged(replace(FREE, trouble="/l/x.health.json: is not what is known of a card"))
    assert found.level is Level.WARNING


def test_of_very_many_cards_only_some_are_told_one_by_one() -> None:
    found = judged(*(replace(FREE, name=f"c{index}", holding=HOLDING) for index in range(64)))
    assert len(found) == 10
    assert found[-1].said == "and 56 more such lines"


def test_a_card_that_this_user_may_not_open_is_a_fault() -> None:
    first, second = judged(replace(FREE, shut="/dev/vfio/17"))
    assert (first.level, first.said) == (Level.FAULT, "1 real card, 0 free, 1 sick: no run can have one")
    assert (second.level, second.remedy) == (Level.FAULT, "have its group let you: ls -l -- /dev/vfio/17")
    # Whoever holds it may: nothing more is known of it.
    assert judged(replace(FREE, shut="/dev/vfio/17", holding=HOLDING))[0].level is Level.WARNING
