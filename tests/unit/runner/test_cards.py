from __future__ import annotations

from ci.device.environment import EMULATED_CARD
from ci.runner.cards import CARDS_VARIABLE, EMULATED_VARIABLE, Card, together


def test_cards_together_are_named_and_given_together() -> None:
    one, two = (Card(name=f"0000:0{n}:00.0", environment={CARDS_VARIABLE: str(n)}) for n in (1, 2))
    both = together([one, two])
    assert (both.name, both.environment) == ("0000:01:00.0+0000:02:00.0", {CARDS_VARIABLE: "1,2"})
    assert together([one]) is one
    assert together([Card(name=f"cpu:{n}", environment={}) for n in (0, 1)]).environment == {}


def test_the_emulated_device_reads_the_variable_the_runner_sets() -> None:
    assert EMULATED_CARD == EMULATED_VARIABLE
