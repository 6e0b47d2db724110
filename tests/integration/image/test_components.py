"""Components that bring a Containerfile of their own, or are a checkout of this machine."""

from __future__ import annotations

import pytest

from .calling import made, spyre_ci
from .conftest import World

pytestmark = pytest.mark.nightly

OWN = """
ARG BASE
FROM scratch AS unused
FROM {base} AS made
ARG PARAM_GREETING
COPY data /opt/flex/data
RUN ["/bin/sh", "-ec", "test ! -e /opt/flex/data/left-out"]
RUN ["/bin/sh", "-ec", "echo \\"$PARAM_GREETING\\" > /opt/flex/greeting.txt"]
FROM scratch
"""


def with_own_containerfile(world: World, extra: str = "") -> None:
    """Let flex bring its Containerfile."""
    path = world.folder / "stack.yaml"
    text = path.read_text()
    start, end = text.index("  - name: flex"), text.index("  - name: senlib")
    flex = f"""  - name: flex
    args: {{GREETING: hello}}
    git:
      url: file://{world.repository}
      subfolder: image
      containerfile: build/Containerfile
      target: made
      paths: [{{source: /opt/flex}}]
{extra}"""
    path.write_text(text[:start] + flex + text[end:])
    base = text.partition('image: "')[2].partition('"')[0]
    world.commit(
        {
            "image/build/Containerfile": OWN.replace("{base}", base),
            "image/data/one.txt": "one\n",
            "image/data/left-out": "x",
            "image/.dockerignore": "data/left-out\n",
        }
    )


def said_in(world: World, image: str, *words: str) -> str:
    said = world.client.containers.run(image, list(words), remove=True, network_mode="none")
    assert isinstance(said, bytes)
    return said.decode()


def test_a_component_brings_its_own_containerfile(world: World) -> None:
    with_own_containerfile(world)
    first = made(spyre_ci(world, "image", "build", "--json"))
    assert (
        said_in(world, first["image"], "cat", "/opt/flex/greeting.txt", "/opt/flex/data/one.txt")
        == "hello\none\n"
    )
    world.commit({"image/data/one.txt": "two\n"})
    second = made(spyre_ci(world, "image", "build", "--json"))
    assert second["image"] != first["image"]
    assert said_in(world, second["image"], "cat", "/opt/flex/data/one.txt") == "two\n"


def test_a_containerfile_that_is_not_there_is_said(world: World) -> None:
    with_own_containerfile(world)
    path = world.folder / "stack.yaml"
    path.write_text(path.read_text().replace("build/Containerfile", "build/Dockerfile"))
    result = spyre_ci(world, "image", "build")
    assert result.code == 2
    assert "flex has no build/Dockerfile" in result.output
    assert f"file://{world.repository} at" in result.output


def test_a_checkout_of_this_machine_is_built_as_it_stands(world: World) -> None:
    committed = made(spyre_ci(world, "image", "build", "--print", "--json"))
    here = f"flex={world.repository}"
    (world.repository / "flex.txt").write_text("not committed\n")
    (world.repository / ".gitignore").write_text("*.o\n")
    (world.repository / "big.o").write_text("ignored by git")
    built = made(spyre_ci(world, "image", "build", "--with", here, "--json"))
    assert said_in(world, built["image"], "cat", "/opt/flex/flex.txt") == "not committed\n"
    shown = made(spyre_ci(world, "image", "build", "--print", "--with", here, "--json"))
    assert built["image"].endswith(f":{shown['tag']}")
    assert shown["tag"] != committed["tag"]
    assert shown["components"]["flex"].startswith("tree:")
    # What Git ignores, or .dockerignore leaves out, changes nothing.
    (world.repository / "big.o").write_text("another")
    assert made(spyre_ci(world, "image", "build", "--print", "--with", here, "--json"))["tag"] == shown["tag"]
    (world.repository / "flex.txt").write_text("again\n")
    assert made(spyre_ci(world, "image", "build", "--print", "--with", here, "--json"))["tag"] != shown["tag"]


def test_a_checkout_is_no_release(world: World) -> None:
    words = ("--with", f"flex={world.repository}", "--push", "--version", "1.2.3")
    result = spyre_ci(world, "image", "build", *words)
    assert result.code == 2
    assert "flex is taken from elsewhere: that is no release" in result.output


def test_a_folder_that_is_not_there_is_said(world: World) -> None:
    result = spyre_ci(world, "image", "build", "--with", "flex=nowhere")
    assert result.code == 2
    assert "there is no such folder" in result.output
