"""What would be tested, and who holds each card; a card is opened under its lease and in no other way."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ci.core import operating_system
from ci.doctor import cards
from ci.doctor.cards import check_cards, check_device, closed_node, leases_folder
from ci.runner.inventory import Card
from ci.runner.leases import Leases

from .conftest import LATE, NOW, Answer, MakeMachine, short

ADDRESS = "0000:1a:00.0"
REAL = {"PCIDEVICE_IBM_COM_SPYRE_PF": ADDRESS}
only_linux = pytest.mark.skipif(not operating_system.is_linux(), reason="only Linux has cards")


@pytest.fixture
def _on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operating_system, "name", lambda: "linux")


def leases(folder: Path, run: str = "nightly") -> Leases:
    return Leases(folder, run=run, clock=lambda: NOW)


@pytest.mark.usefixtures("_on_linux")
@pytest.mark.parametrize(
    ("environ", "flags", "level", "words"),
    [
        ({}, {}, "warning", "torch_spyre is not installed in this environment, so tests run on the emulated"),
        ({"SPYRE_CI_EMULATE": "1"}, {}, "ok", "spyre by the emulated device, no card"),
        ({}, {"device__name": "cpu"}, "ok", "cpu, the control: no card is used"),
        (
            {},
            {"device__name": "cuda"},
            "fault",
            "device 'cuda': torch 2.13.0+cpu is built without CUDA; spyre-ci",
        ),
        (
            {},
            {"device__name": "nobody"},
            "fault",
            "no package in this environment registers the device nobody",
        ),
        ({}, {"device__name": "acme"}, "ok", "acme by torch_acme"),
        ({"SPYRE_CI_EMULATE": "0"}, {}, "fault", "torch_spyre is not installed here"),
        ({"SPYRE_DEVICES": "x"}, {}, "fault", "SPYRE_DEVICES"),
        ({**REAL, "SPYRE_CI_EMULATE": "1"}, {}, "ok", "emulated"),
        (REAL, {}, "fault", "in place of 0000:1a:00.0"),
        (REAL, {"run__cards": 2}, "fault", "2 cards requested, 1 found"),
    ],
)
def test_the_device_is_what_the_runner_would_test(  # noqa: PLR0917  # a row of the table
    make_machine: MakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str], flags: dict[str, Any], level: str, words: str,
) -> None:  # fmt: skip
    made_by = ["torch_acme"] if flags.get("device__name") == "acme" else []
    monkeypatch.setattr("ci.runner.compatibility.registered_back_ends", lambda: made_by)
    monkeypatch.setattr(cards, "registered_back_ends", lambda: made_by)
    monkeypatch.setattr(cards, "installed_torch", lambda: type("T", (), {"version": "2.13.0+cpu"}))
    (found,) = check_device(make_machine(environ, root=tmp_path, **flags))
    assert (str(found.level), words in found.message) == (level, True), found


@pytest.mark.usefixtures("_on_linux")
def test_real_cards_and_pseudo_devices_are_told_apart(
    make_machine: MakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cards, "back_end", lambda _: "torch_spyre 1")
    monkeypatch.setattr(cards, "back_end_missing", lambda *_: None)
    machine = make_machine(REAL, root=tmp_path)
    real = [("ok", "spyre by torch_spyre 1, real cards")]
    assert short([*check_device(machine)]) == real
    bus = tmp_path / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    pseudo = "spyre by torch_spyre 1, 1 pseudo device in place of cards"
    assert short([*check_device(machine)]) == [("warning", pseudo)]
    (bus / ADDRESS).mkdir()
    assert short([*check_device(machine)]) == real


def test_a_start_method_that_a_run_refuses_is_told(
    make_machine: MakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operating_system, "name", lambda: "darwin")
    (found,) = check_device(make_machine({}, run__start_method="fork"))
    assert (str(found.level), found.message.partition(":")[0]) == ("fault", "run.start_method")


def test_where_no_run_was_no_folder_is_made(
    make_machine: MakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = tmp_path / "none"
    found = [*check_cards(make_machine({}, run__leases=none))]
    assert short(found) == [("ok", "2 emulated cards: 2 free")]
    assert not none.exists()
    assert short([*check_cards(make_machine({}, device__name="cpu"))]) == [
        ("ok", "not needed by the device cpu")
    ]
    acme = make_machine({}, device__name="acme", run__leases=none)
    monkeypatch.setattr("ci.runner.compatibility.registered_back_ends", list)
    assert short([*check_cards(acme)]) == [("ok", "not checked: see device")]
    monkeypatch.setattr("ci.runner.compatibility.registered_back_ends", lambda: ["torch_acme"])
    assert short([*check_cards(acme)]) == [("ok", "2 acme workers: 2 free")]
    unknown = make_machine({"SPYRE_DEVICES": "x"})
    assert short([*check_cards(unknown)]) == [("ok", "not checked: see device")]
    assert leases_folder(make_machine().settings).name == "spyre-ci-cards"


@only_linux
@pytest.mark.parametrize("open_cards", [False, True])
def test_a_card_in_use_is_told_and_left_alone(
    make_machine: MakeMachine, tmp_path: Path, open_cards: bool
) -> None:
    folder = tmp_path / "my l"
    held = leases(folder)
    held.take("emulated:0")
    # Only the free one is opened: one answer is all there is.
    machine = make_machine({}, {"why": ""}, run__leases=folder, open_cards=open_cards)
    first, second = check_cards(machine)
    worked = ", of which 1 opened and computed correctly" if open_cards else ""
    assert short([first]) == [("ok", f"2 emulated cards: 1 free{worked}, 1 in use")]
    assert second.message.startswith(f"emulated:0 is in use: run nightly (process {os.getpid()} of ")
    assert second.remedy == f"wait for it; processes that hold it: fuser -v '{folder}/emulated:0.lease'"
    held.take("emulated:1")
    waits = "2 emulated cards: 0 free, 2 in use; a run waits until one is free"
    assert short([*check_cards(machine)])[0] == ("warning", waits)
    # Anybody may write the file.
    row = json.loads((folder / "emulated:0.lease").read_text())
    (folder / "emulated:0.lease").write_text(json.dumps(row | {"user": "a\nb\x1b[2J" + "x" * 400}))
    _, other, _ = check_cards(machine)
    assert "of a b" in other.message
    assert len(other.message) < 340
    (folder / "emulated:0.lease").write_text("{}")
    _, unknown, _ = check_cards(machine)
    assert unknown.message == "emulated:0 is in use: its lease does not say by whom"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"why": "RAS::broken"}, "emulated:0 does not work: RAS::broken"),
        ("nonsense", "exited with code 0 without output"),
        (3, "code 3"),
        (LATE, "no answer within "),
    ],
)
def test_a_card_that_does_not_work_is_a_fault_and_let_go(
    make_machine: MakeMachine, tmp_path: Path, answer: Answer, words: str
) -> None:
    machine = make_machine({}, answer, cores=1, run__leases=tmp_path / "l", open_cards=True)
    first, second = check_cards(machine)
    assert short([first]) == [("fault", "1 emulated card: 0 free, 1 failing; no run can start")]
    assert (str(second.level), words in second.message) == ("fault", True)
    assert second.remedy.endswith("check all cards: spyre-ci job preflight")
    assert leases(tmp_path / "l", "next").take("emulated:0")


def test_the_lease_is_held_while_a_card_is_open_and_let_go_whatever_happens(
    make_machine: MakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*_: object) -> str:
        assert not leases(tmp_path / "l", "other").take("emulated:0")
        raise KeyboardInterrupt

    monkeypatch.setattr(cards, "_opened", opened)
    with pytest.raises(KeyboardInterrupt):
        list(check_cards(make_machine({}, run__leases=tmp_path / "l", open_cards=True)))
    assert leases(tmp_path / "l", "other").take("emulated:0")


def test_a_card_that_is_out_of_use_is_not_opened(make_machine: MakeMachine, tmp_path: Path) -> None:
    health = {"schema": "spyre-ci/card-health/1", "card": "emulated:0", "benched_until": NOW + 60,
              "strikes": [{"at": NOW, "reason": "RAS::x", "run": "r"}]}  # fmt: skip
    folder = tmp_path / "l"
    folder.mkdir()
    (folder / "emulated:0.health.json").write_text(json.dumps(health))
    (folder / "emulated:1.health.json").write_text("{")
    first, out, trouble = check_cards(make_machine({}, {"why": ""}, run__leases=folder, open_cards=True))
    assert first.message.startswith("2 emulated cards: 1 free, of which 1 opened")
    assert (str(out.level), out.message.startswith("emulated:0 is out of use until 2")) == ("warning", True)
    assert out.message.endswith(": RAS::x")
    assert (str(trouble.level), "emulated:1.health.json" in trouble.message) == ("warning", True)


@pytest.mark.usefixtures("_on_linux")
def test_a_card_that_this_user_may_not_open_is_named_by_its_file(
    make_machine: MakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = Card(name=ADDRESS, environment={})
    assert closed_node(card, tmp_path) == closed_node(Card(name="emulated:0", environment={}), tmp_path) == ""
    group, device = tmp_path / "sys/kernel/iommu_groups/17", tmp_path / "sys/bus/pci/devices" / ADDRESS
    for folder in (group, device, tmp_path / "dev/vfio"):
        folder.mkdir(parents=True)
    (device / "iommu_group").symlink_to(group)
    assert closed_node(card, tmp_path) == "", "there is no such file"
    node = tmp_path / "dev/vfio/17"
    node.touch()
    assert closed_node(card, tmp_path) == ""
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != node and access(path, mode))
    first, second = check_cards(make_machine(REAL, root=tmp_path, run__leases=tmp_path / "l"))
    assert short([first]) == [("fault", "1 real card: 0 free, 1 failing; no run can start")]
    assert second.message == f"{ADDRESS}: this user may not open {node}"
    assert second.remedy == f"join its group: ls -l -- {node}"


def test_of_very_many_cards_only_some_have_a_line(make_machine: MakeMachine, tmp_path: Path) -> None:
    held = leases(tmp_path / "l")
    for number in range(64):
        held.take(f"emulated:{number}")
    found = [*check_cards(make_machine({}, cores=64, run__leases=tmp_path / "l"))]
    assert (len(found), found[-1].message) == (10, "56 more such lines are not shown")
