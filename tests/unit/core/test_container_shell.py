"""The words that open a shell in an image."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from ci.core.container_shell import Caller, find_client, shell_command
from ci.core.errors import CommandError


def caller(*, user: int = 1000, terminal: bool = True, checkout: str = "/src/x") -> Caller:
    return Caller(user=user, group=1000, checkout=Path(checkout), terminal=terminal)


def test_the_engines_own_command_is_taken() -> None:
    def both(name: str) -> str | None:
        return f"/usr/bin/{name}"

    def podman(name: str) -> str | None:
        return "/usr/bin/podman" if name == "podman" else None

    assert find_client({}, both) == ["/usr/bin/docker"]
    assert find_client({}, podman) == ["/usr/bin/podman"]
    socket = "unix:///run/podman/podman.sock"
    assert find_client({"DOCKER_HOST": socket}, both) == ["/usr/bin/podman", "--url", socket]
    with pytest.raises(CommandError, match="neither docker nor podman is installed") as caught:
        find_client({"DOCKER_HOST": "tcp://me:pw@host:1"}, lambda _: None)
    assert "pw" not in str(caught.value)


def test_a_shell_is_the_callers_in_the_checkout() -> None:
    words = shell_command(["/usr/bin/docker"], "image", caller(), network=None)
    assert words[-2:] == ["image", "shell"]
    assert words[words.index("--user") + 1] == "1000:1000"
    assert words[words.index("--mount") + 1] == "type=bind,source=/src/x,target=/workspace"
    assert "--tty" in words
    assert {"--network", "--userns"} & set(words) == set()


def test_without_a_terminal_none_is_asked_for_and_a_network_is_named() -> None:
    words = shell_command(["/usr/bin/docker"], "image", caller(terminal=False), network="none")
    assert "--tty" not in words
    assert words[words.index("--network") + 1] == "none"


def test_podman_without_root_keeps_the_number_of_the_user() -> None:
    rootless = shell_command(["/usr/bin/podman", "--url", "x"], "image", caller(), network=None)
    assert rootless[:4] == ["/usr/bin/podman", "--url", "x", "run"]
    assert rootless[rootless.index("--userns") + 1] == "keep-id"
    assert "--userns" not in shell_command(["/usr/bin/podman"], "image", caller(user=0), network=None)


def test_a_folder_may_have_a_comma_in_its_name() -> None:
    words = shell_command(["/usr/bin/docker"], "image", caller(checkout='/src/a,"b'), network=None)
    (fields,) = csv.reader([words[words.index("--mount") + 1]])
    assert fields == ["type=bind", 'source=/src/a,"b', "target=/workspace"]
