from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ci.core.errors import DeviceError, UsageError
from ci.device import environment
from ci.device.environment import EMULATED_CARD
from ci.runner.inventory import (
    CARDS_VARIABLE,
    EMULATE,
    EMULATED_DEVICE,
    EMULATED_VARIABLE,
    Card,
    inventory,
    present,
    together,
)

PLUGIN = "PCIDEVICE_IBM_COM_AIU_PF"
TWO = "0182:60:00.0,0183:70:00.0"


@pytest.fixture(autouse=True)
def _cards_are_linuxs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host without any card."""
    return tmp_path


def names(environ: dict[str, str], root: Path, *, device: str = "spyre", wanted: int = 0) -> list[str]:
    return [card.name for card in inventory(environ, device=device, wanted=wanted, cores=2, root=root)]


def told(environ: dict[str, str], root: Path) -> dict[str, str]:
    """By card, what its worker gets as SPYRE_DEVICES."""
    cards = present(environ, device="spyre", wanted=0, cores=2, root=root)
    return {card.name: card.environment[CARDS_VARIABLE] for card in cards}


def plug_in(root: Path, address: str, *, device: str = "0x06a7", group: str | None = None) -> None:
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    (folder / "vendor").write_text("0x1014\n")
    (folder / "device").write_text(f"{device}\n")
    if group is not None:
        (root / "sys/kernel/iommu_groups" / group).mkdir(parents=True)
        (folder / "iommu_group").symlink_to(root / "sys/kernel/iommu_groups" / group)
        (root / "dev/vfio").mkdir(parents=True, exist_ok=True)
        (root / "dev/vfio" / group).touch()


def test_without_real_cards_there_is_an_emulated_one_a_core(root: Path) -> None:
    assert names({}, root) == ["emulated:0", "emulated:1"]
    assert names({}, root, wanted=3) == ["emulated:0", "emulated:1", "emulated:2"]
    (card,) = inventory({}, device="spyre", wanted=1, cores=2, root=root)
    assert card.environment == {EMULATED_VARIABLE: "emulated:0"}


def test_what_is_emulated_by_wish_is_not_told_of_the_cards_beside_it(root: Path) -> None:
    asked = {PLUGIN: TWO, EMULATE: "1"}
    assert names(asked, root) == ["emulated:0", "emulated:1"]
    assert names({**asked, EMULATE: "0"}, root) == TWO.split(",")
    assert names(asked, root, device="other") == TWO.split(",")


@pytest.mark.parametrize("variable", [CARDS_VARIABLE, PLUGIN, "PCIDEVICE_IBM_COM_SPYRE_PF"])
def test_on_macos_no_card_is_named(root: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(DeviceError) as caught:
        names({variable: "0182:60:00.0"}, root)
    assert caught.value.what == "cards are named, and macOS has none: 0182:60:00.0"
    assert caught.value.where == variable
    assert str(caught.value.remedy).startswith(f"unset {variable}")


def test_on_macos_there_are_emulated_cards_and_cpus(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    plug_in(root, "0182:60:00.0", group="7")
    assert names({}, root, wanted=1) == ["emulated:0"]
    assert names({CARDS_VARIABLE: "0"}, root, wanted=1, device="cpu") == ["cpu:0"]
    assert names({CARDS_VARIABLE: " "}, root, wanted=1) == ["emulated:0"]


def test_a_run_that_wants_fewer_emulated_cards_may_have_any_of_the_hosts(root: Path) -> None:
    assert len(present({}, device="spyre", wanted=1, cores=4, root=root)) == 4


def test_the_control_runs_on_the_cpu_even_beside_real_cards(root: Path) -> None:
    assert names({PLUGIN: TWO}, root, device="cpu", wanted=1) == ["cpu:0"]


@pytest.mark.parametrize("variable", [PLUGIN, "PCIDEVICE_IBM_COM_SPYRE_PF"])
def test_the_device_plugins_cards_are_told_to_workers_by_their_place(variable: str, root: Path) -> None:
    assert told({variable: " 0183:70:00.0, 0182:60:00.0,"}, root) == {
        "0183:70:00.0": "0",
        "0182:60:00.0": "1",
    }


def test_ranks_order_the_same_cards_and_nothing_else(root: Path) -> None:
    ranks = {"AIU_WORLD_RANK_0": "0183:70:00.0", "AIU_WORLD_RANK_1": "0182:60:00.0"}
    assert names({PLUGIN: TWO, **ranks}, root) == ["0183:70:00.0", "0182:60:00.0"]
    other = {**ranks, "AIU_WORLD_RANK_1": "0199:60:00.0"}
    assert names({PLUGIN: TWO, **other}, root) == ["0182:60:00.0", "0183:70:00.0"]


def test_who_sets_spyre_devices_chooses_among_the_pods_cards(root: Path) -> None:
    assert told({PLUGIN: TWO, CARDS_VARIABLE: "1"}, root) == {"0183:70:00.0": "1"}
    assert told({PLUGIN: TWO, CARDS_VARIABLE: "0183:70:00.0"}, root) == {"0183:70:00.0": "1"}


def test_a_hosts_own_numbers_stay_as_they_are(root: Path) -> None:
    assert told({PLUGIN: TWO, CARDS_VARIABLE: "1,5"}, root) == {"spyre:1": "1", "spyre:5": "5"}
    assert told({CARDS_VARIABLE: "3"}, root) == {"spyre:3": "3"}
    assert told({CARDS_VARIABLE: "0000:1A:00.0"}, root) == {"0000:1a:00.0": "0000:1a:00.0"}


def test_cards_on_the_bus_count_by_address_and_only_those_with_vfio_are_used(root: Path) -> None:
    plug_in(root, "0000:2e:00.0", group="75")
    plug_in(root, "0000:1a:00.0")
    plug_in(root, "0000:3c:00.0", device="0x06a8", group="76")
    plug_in(root, "0000:00:1f.0", device="0x1234", group="1")
    assert told({}, root) == {"0000:2e:00.0": "1", "0000:3c:00.0": "2"}


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({PLUGIN: "0182:60:00"}, f"{PLUGIN}: '0182:60:00' is no PCI address"),
        ({PLUGIN: "0182:60:00.0,nonsense"}, "'nonsense' is no PCI address"),
        ({PLUGIN: "0182:60:00.0,0182:60:00.0"}, "0182:60:00.0 stands there twice"),
        ({CARDS_VARIABLE: "0,1,0"}, "0 stands there twice"),
        ({CARDS_VARIABLE: "0,00"}, "stands there twice"),
        ({PLUGIN: TWO, CARDS_VARIABLE: "1,0183:70:00.0"}, "0183:70:00.0 stands there twice"),
        ({PLUGIN: TWO, CARDS_VARIABLE: "0000:01:00.0"}, "0000:01:00.0 is not one of the cards given"),
        ({CARDS_VARIABLE: "-1"}, "'-1' is neither a card's position nor its PCI address"),
        ({CARDS_VARIABLE: "9" * 5000}, "is neither a card's position"),
        ({CARDS_VARIABLE: "²"}, "is neither a card's position"),
        ({CARDS_VARIABLE: "../x"}, "is neither a card's position"),
    ],
)
def test_cards_that_are_named_wrongly_are_told_with_their_variable(
    environ: dict[str, str], said: str, root: Path
) -> None:
    with pytest.raises(DeviceError) as caught:
        names(environ, root)
    assert said in str(caught.value)
    assert "remedy" in str(caught.value)


def test_more_cards_than_there_are_is_an_error_with_both_numbers(root: Path) -> None:
    with pytest.raises(DeviceError, match="3 cards requested, 2 found: 0182:60") as caught:
        names({PLUGIN: TWO}, root, wanted=3)
    assert "--cards 2" in str(caught.value)


def test_a_negative_number_is_refused(root: Path) -> None:
    with pytest.raises(UsageError, match="--cards is -1"):
        names({}, root, wanted=-1)


def test_cards_together_are_named_and_given_together() -> None:
    one, two = (Card(name=f"0000:0{n}:00.0", environment={CARDS_VARIABLE: str(n)}) for n in (1, 2))
    both = together([one, two])
    assert (both.name, both.environment) == ("0000:01:00.0+0000:02:00.0", {CARDS_VARIABLE: "1,2"})
    assert together([one]) is one
    assert together([Card(name=f"cpu:{n}", environment={}) for n in (0, 1)]).environment == {}


def test_the_emulated_device_reads_the_variable_the_runner_sets() -> None:
    assert EMULATED_CARD == EMULATED_VARIABLE
    assert (environment.EMULATE, environment.DEVICE_TYPE) == (EMULATE, EMULATED_DEVICE)
