"""What docs/pins.md shows is what there is."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from ci.config.pins_model import PinPlace, Pins, Suite, Track

TEXT = Path(__file__).parents[3].joinpath("docs", "pins.md").read_text(encoding="utf-8")


def test_its_settings_are_settings_its_numbers_the_defaults_and_every_key_is_named() -> None:
    [shown] = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    settings, fresh = Pins.model_validate(yaml.safe_load(shown)["pins"]), Pins()
    assert (settings.cycle_days, settings.closer_days) == (fresh.cycle_days, fresh.closer_days) == (56, 14)
    keys = {key for section in (Track, Suite, PinPlace) for key in section.model_fields}
    assert {key for key in keys if not re.search(rf"\b{key}\b", TEXT)} == set()
