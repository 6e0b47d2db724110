"""What docs/pins.md shows is what there is."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from ci.config.pins_model import Pins
from ci.pins.protocol import Policy

TEXT = Path(__file__).parents[3].joinpath("docs", "pins.md").read_text(encoding="utf-8")


def test_its_settings_are_settings_and_its_numbers_the_defaults() -> None:
    [shown] = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    settings = Pins.model_validate(yaml.safe_load(shown)["pins"])
    fresh = Pins()
    numbers = {Policy(cycle_days=one.cycle_days, closer_days=one.closer_days) for one in (settings, fresh)}
    assert numbers == {Policy()}
