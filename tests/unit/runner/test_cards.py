from __future__ import annotations

import pytest

from ci.errors import DeviceError, UsageError
from ci.runner.cards import CARDS_VARIABLE, Card, inventory, together


def names(environ: dict[str, str], *, device: str = "spyre", wanted: int = 0, cores: int = 2) -> list[str]:
    return [card.name for card in inventory(environ, device=device, wanted=wanted, cores=cores)]


def test_without_real_cards_there_is_an_emulated_one_a_core() -> None:
    assert names({}) == ["emulated:0", "emulated:1"]
    assert names({}, wanted=3) == ["emulated:0", "emulated:1", "emulated:2"]


def test_the_control_runs_on_the_cpu_even_beside_real_cards() -> None:
    assert names({"SPYRE_DEVICES": "a,b"}, device="cpu", wanted=1) == ["cpu:0"]


@pytest.mark.parametrize(
    "variable", ["PCIDEVICE_IBM_COM_AIU_PF", "PCIDEVICE_IBM_COM_SPYRE_PF", "SPYRE_DEVICES"]
)
def test_real_cards_are_listed_once_in_their_order(variable: str) -> None:
    assert names({variable: "0000:02:00.0, 0000:01:00.0,0000:02:00.0,"}) == ["0000:02:00.0", "0000:01:00.0"]


def test_a_worker_is_told_its_card() -> None:
    (card,) = inventory({"PCIDEVICE_IBM_COM_AIU_PF": "x,y"}, device="spyre", wanted=1, cores=2)
    assert card.environment == {"SPYRE_DEVICES": "x"}


def test_more_cards_than_there_are_is_an_error_with_both_numbers() -> None:
    with pytest.raises(DeviceError, match="3 cards wanted, 2 there: x, y") as caught:
        names({"SPYRE_DEVICES": "x,y"}, wanted=3)
    assert "--cards 2" in str(caught.value)


def test_a_negative_number_is_refused() -> None:
    with pytest.raises(UsageError, match="--cards is -1"):
        names({}, wanted=-1)


def test_cards_together_are_named_and_given_together() -> None:
    one, two = (Card(name=name, environment={CARDS_VARIABLE: name}) for name in ("0000:01", "0000:02"))
    both = together([one, two])
    assert (both.name, both.environment) == ("0000:01+0000:02", {CARDS_VARIABLE: "0000:01,0000:02"})
    assert together([one]) is one
    emulated = [Card(name=f"emulated:{index}", environment={}) for index in range(2)]
    assert together(emulated) == Card(name="emulated:0+emulated:1", environment={})
