"""Which long tests a change brings into the gate, and that every long test is some room's."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ROOMS: Mapping[str, Sequence[str]] = yaml.safe_load((ROOT / "tests/rooms.yaml").read_text(encoding="utf-8"))
SMALL = {"ci/hud": ["tests/hud", "tests/both"], "ci/jobs": ["tests/both"], "noxfile.py": ["tests/readme"]}
EVERYTHING = ["tests/both", "tests/hud", "tests/readme"]


def touched(files: Sequence[str], rooms: Mapping[str, Sequence[str]] = SMALL) -> Any:
    spec = importlib.util.spec_from_file_location("touched", ROOT / "scripts/touched.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.touched(files, rooms)


@pytest.mark.parametrize(
    ("files", "tests"),
    [
        ([], []),
        (["ci/hud/server/app.py"], ["tests/both", "tests/hud"]),
        (["ci/jobs/spec.py", "ci/hud/cli.py"], ["tests/both", "tests/hud"]),
        (["noxfile.py"], ["tests/readme"]),
        # What no room has is what all stand on; a name that only begins alike is no room's.
        (["ci/core/errors.py"], EVERYTHING),
        (["ci/hudson/app.py"], EVERYTHING),
        (["tests/conftest.py"], EVERYTHING),
        (["tests/heavy/test_wheel.py", "tests/integration/test_went.py"], ["tests/heavy/test_wheel.py"]),
        (
            ["tests/integration/hud/conftest.py", "tests/heavy/act.py"],
            ["tests/heavy", "tests/integration/hud"],
        ),
        (["docs/hud.md", "README.md", "changelog.d/x.md", "tests/unit/hud/test_rows.py"], []),
    ],
)
def test_a_change_touches_the_tests_of_its_rooms(files: list[str], tests: list[str]) -> None:
    assert touched(files) == tests


def test_every_long_test_is_some_rooms_and_every_room_and_test_is_there() -> None:
    named = {one for tests in ROOMS.values() for one in tests}
    assert [one for one in (*ROOMS, *named) if not (ROOT / one).exists()] == []
    long = {
        str(path.relative_to(ROOT))
        for folder in ("heavy", "integration")
        for path in (ROOT / "tests" / folder).rglob("test_*.py")
        if folder == "heavy" or re.search(r"mark\.nightly", path.read_text(encoding="utf-8"))
    }
    assert [one for one in sorted(long) if not any(f"{one}/".startswith(f"{name}/") for name in named)] == []


def test_every_package_is_a_room() -> None:
    packages = {path.parent.name for path in (ROOT / "ci").glob("*/__init__.py")}
    assert packages == {name.removeprefix("ci/") for name in ROOMS if name.startswith("ci/")}
