"""What a build is given in confidence is in nothing that it leaves."""

from __future__ import annotations

import json

import pytest

from .calling import made, spyre_ci
from .conftest import World

SECRET = "hunter2-of-the-index"


@pytest.mark.nightly
def test_no_secret_is_in_the_stages_that_the_engines_cache_keeps(world: World) -> None:
    address = world.index.replace("http://", f"http://robot:{SECRET}@")
    made(spyre_ci(world, "image", "build", "--json", PIP_INDEX_URL=f"{address}/"))
    for one in world.client.api.images(all=True):
        image = world.client.images.get(one["Id"])
        assert SECRET not in json.dumps([image.attrs, image.history()])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("args: {GREETING: 'https://robot:word@example.com'}", "GREETING looks like a secret"),
        ("args: {INDEX_TOKEN: abc}", "INDEX_TOKEN looks like a secret"),
    ],
)
def test_a_secret_in_an_argument_is_refused_unseen(world: World, text: str, said: str) -> None:
    path = world.folder / "stack.yaml"
    path.write_text(path.read_text().replace("args: {GREETING: hello}", text))
    result = spyre_ci(world, "image", "build", "--push")
    assert result.code == 2
    assert said in result.output
    assert "word" not in result.output
    assert "abc" not in result.output
