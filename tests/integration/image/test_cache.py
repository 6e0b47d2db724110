"""Four components, one of them changed: what is built anew, and how long it takes."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
import yaml

from tests.calls import Said
from tests.repositories import commit, git

from .conftest import World

pytestmark = pytest.mark.nightly

# c needs b, which needs a; d stands alone.
NEEDS = {"a": [], "b": ["a"], "c": ["b"], "d": []}
SLEEP_S = 3


def ran(said: Said) -> set[str]:
    """The components whose own steps ran, and were not found in the cache."""
    return set(re.findall(r"compiling ([a-d])$", said.err, re.MULTILINE))


def test_what_depends_on_a_change_is_built_anew_and_no_more(world: World, tmp_path: Path) -> None:
    path = world.folder / "stack.yaml"
    stack = yaml.safe_load(path.read_text())
    stack["components"] = []
    for name, needs in NEEDS.items():
        folder = tmp_path / "parts" / name
        folder.mkdir(parents=True)
        git(folder, "init", "-q", "-b", "main")
        commit(folder, {"source": world.run})
        steps = [f"sleep {SLEEP_S}; echo compiling {name}", f"install -D source $DESTDIR/opt/{name}"]
        source = {"url": f"file://{folder}", "steps": steps}
        stack["components"].append({"name": name, "needs": needs, "git": source})
    path.write_text(yaml.safe_dump(stack, sort_keys=False))

    def build() -> tuple[set[str], float, list[str]]:
        began = time.monotonic()
        said = world.image("build", "--json", code=0)
        seconds = time.monotonic() - began
        layers: list[str] = world.client.images.get(said.json["image"]).attrs["RootFS"]["Layers"]
        return ran(said), seconds, layers

    cold, cold_s, before = build()
    assert cold == set(NEEDS)
    for changed, expected in {"d": {"d"}, "c": {"c"}, "b": {"b", "c"}}.items():
        commit(tmp_path / "parts" / changed, {"source": f"{world.run} changed"})
        built, seconds, layers = build()
        assert built == expected
        assert seconds < cold_s
        new = sum(old != now for old, now in zip(before, layers, strict=True))
        assert new <= len(expected)
        before = layers
