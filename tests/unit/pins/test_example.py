"""The fine-tuning image of the examples: its pin has one place, which holds any version."""

from __future__ import annotations

from pathlib import Path

from ci.config import load_settings
from ci.pins.place import read_version, with_version

EXAMPLES = Path(__file__).parent.parent.parent.parent / "examples"


def test_the_pin_of_the_example_stands_in_one_place_which_holds_any_other() -> None:
    settings = load_settings(path=EXAMPLES / "pins-fine-tuning.yaml", environ={}, flags={}, cwd=EXAMPLES)
    pin = settings.model.pins.tracks["fine-tuning"].pin
    assert pin is not None
    file = EXAMPLES / pin.file
    content = file.read_bytes()
    assert read_version(file, content, pin.key) == "3.1.0"
    for version in ("3.2.0", "4.2.0", "10.0.0rc1"):
        assert with_version(file, content, pin.key, version) == content.replace(b"3.1.0", version.encode())
