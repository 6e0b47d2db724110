"""Components that bring a Containerfile of their own, or are a checkout of this machine."""

from __future__ import annotations

import pytest

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


def with_own_containerfile(world: World) -> None:
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
"""
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


def test_a_component_brings_its_own_containerfile(world: World) -> None:
    with_own_containerfile(world)
    first = world.made("build")
    assert (
        world.run_in(first["image"], "cat", "/opt/flex/greeting.txt", "/opt/flex/data/one.txt")
        == "hello\none\n"
    )
    world.commit({"image/data/one.txt": "two\n"})
    second = world.made("build")
    assert second["image"] != first["image"]
    assert world.run_in(second["image"], "cat", "/opt/flex/data/one.txt") == "two\n"


def test_a_containerfile_that_is_not_there_is_said(world: World) -> None:
    with_own_containerfile(world)
    world.edit("build/Containerfile", "build/Dockerfile")
    result = world.image("build", code=2)
    assert "there is no build/Dockerfile" in result.output
    assert f"file://{world.repository} at" in result.output


def test_a_checkout_of_this_machine_is_built_as_it_stands(world: World) -> None:
    committed = world.shown()
    here = f"flex={world.repository}"
    (world.repository / "flex.txt").write_text("not committed\n")
    (world.repository / ".gitignore").write_text("*.o\n")
    (world.repository / "big.o").write_text("ignored by git")
    built = world.made("build", "--with", here)
    assert world.run_in(built["image"], "cat", "/opt/flex/flex.txt") == "not committed\n"
    shown = world.shown("--with", here)
    assert built["image"].endswith(f":{shown['tag']}")
    assert shown["tag"] != committed["tag"]
    assert shown["components"]["flex"].startswith("tree:")
    # What Git ignores, or .dockerignore leaves out, changes nothing.
    (world.repository / "big.o").write_text("another")
    assert world.shown("--with", here)["tag"] == shown["tag"]
    (world.repository / "flex.txt").write_text("again\n")
    assert world.shown("--with", here)["tag"] != shown["tag"]
