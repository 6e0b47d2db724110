from __future__ import annotations

from pathlib import Path

import pytest

from ci.core.errors import SettingsError
from ci.device.environment import CARD_FAULTS, CARD_STATE, EMULATED_CARD
from ci.device.faults import Fault, event, fault_of
from ci.runner.ras import hardware_event


def fault(text: str, card: str = "emulated:1", **more: str) -> Fault | None:
    return fault_of({CARD_FAULTS: text, EMULATED_CARD: card, **more})


def test_only_the_card_that_is_named_is_sick() -> None:
    assert fault("emulated:0=open,emulated:2=fail:3") is None
    assert fault("") is None
    found = fault("emulated:0=open, emulated:1=fail:3")
    assert found is not None
    assert (found.card, found.kind, found.at) == ("emulated:1", "fail", 3)


@pytest.mark.parametrize("text", ["open", "=open", "emulated:1=burn", "emulated:1=fail:x", "a=fail:-1", "a="])
def test_a_fault_nobody_knows_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="emulated:0=fail:20") as caught:
        fault(text)
    assert caught.value.where == CARD_FAULTS


@pytest.mark.parametrize(("kind", "told"), [("fail", True), ("mute", False)])
def test_a_card_fails_from_an_operation_on(kind: str, told: bool) -> None:
    found = fault(f"emulated:1={kind}:3")
    assert found is not None
    double = found.guard(lambda number: 2 * number)
    assert [double(number) for number in (1, 2)] == [2, 4]
    for _ in range(2):
        with pytest.raises(RuntimeError) as caught:
            double(3)
        assert (hardware_event(str(caught.value)) is not None) == told


def test_a_card_that_cannot_be_opened_fails_at_once() -> None:
    found = fault("emulated:1=open")
    assert found is not None
    with pytest.raises(RuntimeError, match="RAS::PCI::PCIeFailure"):
        found.step()


def test_a_card_that_failed_is_dead_for_later_processes(tmp_path: Path) -> None:
    for _ in range(2):
        found = fault("emulated:1=mute:2", **{CARD_STATE: str(tmp_path)})
        assert found is not None
        if not list(tmp_path.iterdir()):
            found.step()
        with pytest.raises(RuntimeError):
            found.step()
    assert [one.name for one in tmp_path.iterdir()] == ["emulated:1.dead"]


def test_an_emulated_event_is_what_the_runner_takes_for_a_cards() -> None:
    assert hardware_event(event("emulated:1", "RAS::PCI::BusFence")) is not None
