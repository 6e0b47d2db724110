from __future__ import annotations

from pathlib import Path

import pytest

from ci.core import engine_address

HOME = {"HOME": "/of/a/user", "TMPDIR": "/its/scratch"}


@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_the_address_that_is_named_is_taken_and_else_the_usual_one(system: str) -> None:
    named = {"DOCKER_HOST": "unix:///mine.sock", **HOME}
    assert engine_address.address(named, system=system, is_socket=lambda _: True) == "unix:///mine.sock"
    for environ in (HOME, {}, {"HOME": "", "TMPDIR": "", "DOCKER_HOST": ""}):
        every, none = (
            engine_address.address(environ, system=system, is_socket=is_socket)
            for is_socket in (lambda _: True, lambda _: False)
        )
        assert every == none == "unix:///var/run/docker.sock"


@pytest.mark.parametrize(
    "path",
    [
        "/of/a/user/.docker/run/docker.sock",
        "/of/a/user/.local/share/containers/podman/machine/podman.sock",
        "/of/a/user/.colima/default/docker.sock",
        "/of/a/user/.rd/docker.sock",
        "/its/scratch/podman/podman-machine-default-api.sock",
    ],
)
def test_on_macos_a_socket_of_the_users_is_found_and_on_linux_it_is_nobodys(path: str) -> None:
    def only(one: Path) -> bool:
        return str(one) == path

    assert engine_address.address(HOME, system="darwin", is_socket=only) == f"unix://{path}"
    assert engine_address.address(HOME, system="linux", is_socket=only) == "unix:///var/run/docker.sock"


def test_what_to_do_is_what_the_system_has() -> None:
    assert "Docker Desktop" in engine_address.remedy(system="darwin")
    assert "podman machine start" in engine_address.remedy(system="darwin")
    assert (
        engine_address.remedy(system="linux")
        == "start dockerd or podman's socket, or set DOCKER_HOST to where one is"
    )
