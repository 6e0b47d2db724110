"""Registries that refuse: what is said, and that nothing is left half-done there."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from .calling import made, spyre_ci
from .conftest import World

# Of the word "right".
HASH = "$2b$04$wr6u6I4.0XdvLolPVf1Y2OMutR3MOZL6ocntx1opPbQkKImOZOCDy"
START_S = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """A registry that wants a user and a word."""

    address: str
    folder: Path

    def login(self, word: str) -> str:
        """A folder as `docker login` leaves it."""
        folder = self.folder / f"login-{word}"
        folder.mkdir()
        known = base64.b64encode(f"robot:{word}".encode()).decode()
        (folder / "config.json").write_text(json.dumps({"auths": {self.address: {"auth": known}}}))
        return str(folder)

    def tags(self, repository: str) -> list[str]:
        """What it holds of a repository."""
        said = requests.get(
            f"http://{self.address}/v2/{repository}/tags/list", auth=("robot", "right"), timeout=10
        )
        return sorted(said.json().get("tags") or ()) if said.status_code == requests.codes.ok else []


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Locked]:
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("docker-registry is not installed")
    folder = tmp_path / "locked"
    folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    (folder / "users").write_text(f"robot:{HASH}\n")
    (folder / "registry.yml").write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {folder}/data}}}}\n"
        f"http: {{addr: '{address}'}}\n"
        f"auth: {{htpasswd: {{realm: here, path: {folder}/users}}}}\n"
    )
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([program, "serve", str(folder / "registry.yml")], stdout=log, stderr=log)
    try:
        _wait(address)
        yield Locked(address=address, folder=folder)
    finally:
        server.terminate()
        server.wait(timeout=20)


def _wait(address: str) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        try:
            requests.get(f"http://{address}/v2/", timeout=1)
        except requests.ConnectionError:
            time.sleep(0.05)
        else:
            return
    pytest.fail("the registry did not start")


@pytest.mark.parametrize("word", ["wrong", ""])
def test_wrong_credentials_are_said_and_nothing_is_pushed(world: World, locked: Locked, word: str) -> None:
    login = locked.login(word) if word else str(locked.folder / "nobody")
    environ = {
        "SPYRE_CI__IMAGE__REPOSITORY": f"{locked.address}/spyre/runtime-{world.run}",
        "DOCKER_CONFIG": login,
    }
    result = spyre_ci(world, "image", "build", "--push", "--tag", "latest", **environ)
    assert result.code == 2
    assert "refuses the credentials for" in result.output
    assert f"docker login {locked.address}" in result.output
    assert "#1 " not in result.output
    assert locked.tags(f"spyre/runtime-{world.run}") == []


@pytest.mark.nightly
def test_right_credentials_push_and_find(world: World, locked: Locked) -> None:
    environ = {
        "SPYRE_CI__IMAGE__REPOSITORY": f"{locked.address}/spyre/runtime-{world.run}",
        "DOCKER_CONFIG": locked.login("right"),
    }
    first = made(spyre_ci(world, "image", "build", "--push", "--tag", "latest", "--json", **environ))
    own = first["image"].rpartition(":")[2]
    assert locked.tags(f"spyre/runtime-{world.run}") == ["latest", own]
    again = made(spyre_ci(world, "image", "build", "--push", "--json", **environ))
    assert again == {**first, "found": True}
