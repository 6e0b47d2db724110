"""The lanes of the examples call the session that people call."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.config import load_settings
from ci.config.model import SettingsModel
from ci.lanes.command import command
from ci.lanes.order import Order

EXAMPLES = Path(__file__).parent.parent.parent.parent / "examples"


def example(name: str) -> SettingsModel:
    return load_settings(path=EXAMPLES / name, environ={}, flags={}, cwd=EXAMPLES).model


@pytest.mark.parametrize(
    ("name", "lane", "words"),
    [
        ("lanes-nightly.yaml", "stage-1-nightly", ["--stage", "1", "--bucket", "nightly"]),
        ("lanes-nightly.yaml", "stage-3-daily", ["--stage", "3", "--bucket", "nightly"]),
        ("lanes-weekly.yaml", "weekly", ["--stage", "4", "--bucket", "weekly"]),
    ],
)
def test_a_lane_calls_the_session_that_people_call(
    tmp_path: Path, name: str, lane: str, words: list[str]
) -> None:
    order = Order(lane=lane, due=0, attempt=1, seed=0, folder=tmp_path)
    found = command(example(name).lanes[lane], order, toolkit=Path("noxfile.py"), base=EXAMPLES)
    assert found.words == ("nox", "-f", "noxfile.py", "-s", "pytorch", "--", *words)
