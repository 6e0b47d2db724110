from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.runner.ras import EVENTS, hardware_event, is_hardware

STAMP = "ERRR 03.08.2026 22:12:26.750593 [ras_base.hpp: 95] "


def event(name: str, **keys: str) -> str:
    pairs = [f'"{key}":"{value}"' for key, value in {"BAR": "PFBAR01", "name": name, **keys}.items()]
    return "{" + ",".join(pairs) + "}"


@pytest.mark.parametrize(
    "name",
    [
        "RAS::PCI::PCIeFailure",
        "RAS::PCI::BusFence",
        "RAS::VFIO::DeviceOpenFail",
        "RAS::CBRB::ResponseTimeout",
        "RAS::RUNTIMESCHEDULER::ComputeHardwareError",
    ],
)
@pytest.mark.parametrize("severity", [{"severity": "ERROR"}, {"severity": "fatal"}, {}])
def test_an_error_of_the_card_is_found_and_quoted(name: str, severity: dict[str, str]) -> None:
    line = STAMP + event(name, category="configuration", **severity)
    found = hardware_event(f"before\n{line}\nafter")
    assert found is not None
    assert (found.name, found.line) == (name, line)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "RAS:: and nothing",
        STAMP + event("RAS::SCHEDULER::BufferNotAligned", category="software", severity="ERROR"),
        STAMP + event("RAS::SCHEDULER::BufferNotAligned", category="hardware", severity="ERROR"),
        STAMP + event("RAS::CONFIGURATION::InvalidDeviceForDOOMMode"),
        STAMP + event("RAS::VFIO::MapDMAFailed", category="hardware", severity="ERROR"),
        "RAS::VFIO::MapDMAFailed / No space left on device",
        STAMP + event("RAS::PCI::PCIeFailure", severity="INFO"),
        STAMP + event("RAS::PCI::PCIeFailure", severity="WARNING"),
        STAMP + event("RAS::NEW::Thing", category="software", severity="ERROR"),
        STAMP + event("RAS::NEW::Thing", severity="ERROR"),
        "INFO Reusing PfInterface forSEN:VFIO:TYPE1:0000:1a:00.0, usage = 2",
        'no object: "name":"RAS::',
    ],
)
def test_what_is_not_the_cards_fault_is_left_to_the_test(text: str) -> None:
    assert hardware_event(text) is None


def test_an_event_of_no_known_name_is_judged_by_its_category_or_family() -> None:
    assert is_hardware("RAS::NEW::Thing", "hardware")
    assert is_hardware("RAS::PCI::Unheard")
    assert not is_hardware("RAS::PCI::Unheard", "software")
    assert not is_hardware("RAS::NEW::Thing")


def test_the_severity_is_the_events_own_and_not_a_peers() -> None:
    well = event("RAS::PCI::PCIeFailure", severity="INFO")
    sick = event("RAS::PCI::BusFence", severity="ERROR")
    for text in (f"{well}\n{sick}", f"{well} {sick}", f"{sick}\n{well}"):
        found = hardware_event(text)
        assert found is not None
        assert found.name == "RAS::PCI::BusFence"


def test_an_event_spread_over_lines_is_found() -> None:
    text = """RuntimeError: {
  "Device": "/dev/vfio/75",
  "errno": "Device or resource busy",
  "name": "RAS::VFIO::DeviceOpenFail",
  "step": "Validate user environment configuration"
}"""
    found = hardware_event(text)
    assert found is not None
    assert "Device or resource busy" not in found.name
    assert "RAS::VFIO::DeviceOpenFail" in found.line


def test_the_card_that_was_opened_is_named() -> None:
    opened = "Opened: SEN:VFIO:TYPE1:0000:2e:00.0\n" * 2
    found = hardware_event(opened + event("RAS::PCI::BusFence"))
    assert found is not None
    assert found.address == "0000:2e:00.0"
    assert str(found).endswith("(card 0000:2e:00.0)")


def test_of_several_cards_that_were_opened_none_is_named() -> None:
    opened = "".join(f"Opened: SEN:VFIO:TYPE1:0000:{one}:00.0\n" for one in ("1a", "2e"))
    found = hardware_event(opened + event("RAS::PCI::BusFence"))
    assert found is not None
    assert found.address is None


def test_colours_in_a_log_hide_nothing() -> None:
    assert hardware_event(f"\x1b[31m{event('RAS::PCI::BusFence')}\x1b[0m") is not None


def test_the_text_of_an_exception_that_only_names_a_known_event_counts() -> None:
    found = hardware_event("RuntimeError: RAS::VFIO::DeviceOpenFail: Device or resource busy")
    assert found is not None
    assert found.line == "RuntimeError: RAS::VFIO::DeviceOpenFail: Device or resource busy"
    assert hardware_event("about RAS::PCI::Unheard in general") is None


def test_every_entry_of_the_table_is_reached() -> None:
    for name, hardware in EVENTS:
        asked = f"{name}Anything" if name.endswith("::") else name
        assert is_hardware(asked, "hardware") is hardware


@given(st.text(alphabet='{}":,RAS::PCI::BusFence name severity ERROR\n', max_size=300))
def test_no_text_breaks_it_and_what_is_quoted_is_short(text: str) -> None:
    found = hardware_event(text)
    assert found is None or len(found.line) <= 400
