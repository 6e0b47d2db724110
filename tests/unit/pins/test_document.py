"""What docs/pins.md shows is what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ci.config.load import load_settings
from ci.config.pins_model import PinPlace, Pins, Suite, Track
from ci.config.section import Section
from ci.lanes.command import launch_of
from ci.lanes.ledger import Attempt, Status
from ci.pins.protocol import Policy

ROOT = Path(__file__).parents[3]
TEXT = ROOT.joinpath("docs", "pins.md").read_text(encoding="utf-8")
VERBS = ROOT.joinpath("docs", "pins-verbs.md").read_text(encoding="utf-8")


def test_its_settings_are_settings_and_its_numbers_the_defaults() -> None:
    [shown] = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    settings = Pins.model_validate(yaml.safe_load(shown)["pins"])
    fresh = Pins()
    numbers = {Policy(cycle_days=one.cycle_days, closer_days=one.closer_days) for one in (settings, fresh)}
    assert numbers == {Policy()}


@pytest.mark.parametrize(("what", "section"), [("`pins`", Pins), ("a track", Track), ("a suite", Suite)])
def test_every_key_is_in_its_tables(what: str, section: type[Section]) -> None:
    [table] = re.findall(rf"\| key of {what} \| means \|\n\|---\|---\|\n((?:\|.*\n)+)", TEXT)
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(section.model_fields)
    assert all(f"`{key}`" in TEXT for key in PinPlace.model_fields)


def test_the_lanes_that_record_and_apply_are_settings_and_call_the_verbs(tmp_path: Path) -> None:
    [shown] = re.findall(r"```yaml\n(lanes:.*?)```", VERBS, re.DOTALL)
    path = tmp_path / "spyre-ci.yaml"
    path.write_text(shown)
    settings = load_settings(path=path, environ={}, flags={}, cwd=tmp_path)
    values = {"GITHUB_REPOSITORY": "o/r", "SPYRE_CI_GITHUB_TOKEN": "t"}
    words = {}
    for name in settings.model.lanes:
        attempt = Attempt(lane=name, due=0, attempt=1, status=Status.RUNNING, why="", begun_at=0)
        words[name] = tuple(launch_of(attempt, 1, tmp_path, settings, values).command[3:])
    assert words == {
        "pins-record": ("-s", "pins", "--", "record", "--keep"),
        "pins-torch": ("-s", "pins", "--", "apply", "torch"),
    }
    assert "def pins(session" in ROOT.joinpath("noxfile.py").read_text(encoding="utf-8")
