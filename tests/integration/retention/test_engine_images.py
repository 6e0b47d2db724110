"""Images on a real engine: ours go, others' and those in use stay. Nothing but this test's own is removed."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import docker
import pytest
from docker.errors import ImageNotFound

from ci.cli.app import run
from ci.report.released import Released
from ci.retention.images import find_images
from ci.retention.rules import Item, KeptError
from tests.engine import build_image, engine_client
from tests.retention_world import put, release_of

OURS = 'FROM scratch\nLABEL io.github.torch-spyre.variant="pinned"\nCOPY mark /mark\n'


class World:
    """An engine, and names in it that are this test's alone."""

    def __init__(self, client: docker.DockerClient) -> None:
        self.client, self.repository = client, f"spyre-ci-prune-{secrets.token_hex(4)}"
        self.made: list[str] = []

    def build(self, tag: str, text: str = OURS) -> str:
        name = f"{self.repository}:{tag}"
        build_image(self.client, name, text, {"mark": name})
        self.made.append(name)
        return name

    def ours(self) -> list[Item]:
        return [one for one in find_images(self.client, Released()) if one.name in self.made]

    def has(self, name: str) -> bool:
        with suppress(ImageNotFound):
            self.client.images.get(name)
            return True
        return False


@pytest.fixture
def world() -> Iterator[World]:
    with engine_client() as client:
        made = World(client)
        yield made
        for name in reversed(made.made):
            with suppress(ImageNotFound):
                client.images.remove(name)


def stack_tag() -> str:
    return f"stack-{secrets.token_hex(10)}"


def test_one_of_ours_goes_once_and_what_is_built_on_it_stays(world: World) -> None:
    name = world.build(stack_tag())
    theirs = world.build("theirs", f"FROM {name}\nCOPY mark /mine\n")
    (item,) = world.ours()
    assert (item.name, item.held) == (name, "")
    item.remove(item)
    assert not world.has(name)
    assert world.has(theirs)
    with pytest.raises(KeptError, match="removed meanwhile"):
        item.remove(item)


def test_one_that_a_container_uses_stays(world: World) -> None:
    name = world.build(stack_tag())
    (item,) = world.ours()
    container = world.client.containers.create(name, command=["none"])
    try:
        assert world.ours()[0].held == "a container uses it"
        with pytest.raises(KeptError, match="uses it"):
            item.remove(item)
    finally:
        container.remove()
    assert world.has(name)


def test_one_that_is_tagged_meanwhile_stays(world: World) -> None:
    name = world.build(stack_tag())
    (item,) = world.ours()
    world.client.api.tag(name, world.repository, "release")
    world.made.append(f"{world.repository}:release")
    with pytest.raises(KeptError, match="tagged meanwhile"):
        item.remove(item)
    assert world.has(name)


def test_the_verb_finds_ours_and_a_release_holds_one_of_them(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    named, free = world.build(stack_tag()), world.build(stack_tag())
    theirs = world.build("theirs", OURS)
    number = world.client.images.get(named).id
    put(Path("dist/release.json"), "release", release_of(image=f"reg/x@{number}"))
    words = ["--only", "images", "--dry-run", "--json", "--keep-days", "0", "--keep-last", "0"]
    assert run(["prune", *words]) == 0
    told = json.loads(capsys.readouterr().out)
    assert free in [one["name"] for one in told["removed"]]
    assert {one["name"]: one["why"] for one in told["kept"]}[named] == "a release names it"
    assert all(world.has(name) for name in (named, free, theirs))
