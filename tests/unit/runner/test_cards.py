from __future__ import annotations

from ci.device import environment
from ci.device.environment import EMULATED_CARD
from ci.runner.cards import (
    CARDS_VARIABLE,
    EMULATE,
    EMULATED_DEVICE,
    EMULATED_VARIABLE,
    Card,
    at_fault,
    together,
)


def test_cards_together_are_named_and_given_together() -> None:
    one, two = (Card(name=f"0000:0{n}:00.0", environment={CARDS_VARIABLE: str(n)}) for n in (1, 2))
    both = together([one, two])
    assert (both.name, both.environment) == ("0000:01:00.0+0000:02:00.0", {CARDS_VARIABLE: "1,2"})
    assert together([one]) is one
    assert together([Card(name=f"cpu:{n}", environment={}) for n in (0, 1)]).environment == {}


def test_the_emulated_device_reads_the_variable_the_runner_sets() -> None:
    assert EMULATED_CARD == EMULATED_VARIABLE
    assert (environment.EMULATE, environment.DEVICE_TYPE) == (EMULATE, EMULATED_DEVICE)


def test_of_several_cards_the_one_that_is_named_is_at_fault() -> None:
    cards = [Card(name=f"emulated:{number}", environment={}) for number in (1, 10, 11)]
    assert at_fault(cards, 'RAS {"Device":"emulated:10","name":"RAS::X"}') == [cards[1]]
    assert at_fault(cards, "the card said: x (card emulated:1)") == [cards[0]]
    assert at_fault(cards, "emulated:1, and emulated:11.") == [cards[0], cards[2]]
    assert at_fault(cards, "took longer than 5 s on emulated:111") == cards
    assert at_fault(cards[:1], "whatever") == cards[:1]
    address = [Card(name=f"0000:{one}:00.0", environment={}) for one in ("1a", "2e")]
    assert at_fault(address, "Device 0000:2e:00.0 failed") == [address[1]]
    assert at_fault(address, "Device 0000:2e:00.01 failed") == address
