"""The network of a build's steps: the engine's default, or what the settings say."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import World

pytestmark = pytest.mark.nightly


@pytest.fixture
def listener() -> Iterator[tuple[int, list[str]]]:
    """A port of this machine's loopback, and who connected to it."""
    came: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, address = server.accept()
                except OSError:
                    return
                connection.close()
                came.append(str(address))

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1], came
        server.shutdown(socket.SHUT_RDWR)


def recording(folder: Path) -> str:
    """A `docker` that notes what it is called with, and does it; returns a PATH with it in front."""
    folder.mkdir()
    program = folder / "docker"
    program.write_text(f'#!/bin/sh\necho "$@" >> {folder}/calls\nexec {shutil.which("docker")} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_the_host_is_reached_with_the_setting_and_not_asked_for_without(
    world: World, listener: tuple[int, list[str]], tmp_path: Path
) -> None:
    port, came = listener
    world.steps(f"exec 3<>/dev/tcp/127.0.0.1/{port}")
    path = recording(tmp_path / "bin")
    world.made("build", PATH=path)
    assert came, "a step reached the host's loopback by image.network: host"
    calls = tmp_path / "bin" / "calls"
    assert "--network=host" in calls.read_text()
    # Of an engine without a network the build itself need not come about.
    calls.unlink()
    world.commit({"flex.txt": "other\n"})
    world.image("build", PATH=path, SPYRE_CI__IMAGE__NETWORK="")
    builds = [line for line in calls.read_text().splitlines() if line.startswith("buildx build")]
    assert builds
    assert not [line for line in builds if re.search("--network|--allow", line)]
