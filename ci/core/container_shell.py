"""A shell in the image with the checkout mounted, by the engine's own command.

The engine's client library hands over a raw stream; sizes of windows, raw terminals and detaching are left to
who uses it, and what did that for Python is no longer kept. Whoever builds images has docker or podman.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from ci.core.addresses import without_secrets
from ci.core.errors import CommandError

WORKSPACE = "/workspace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks for a shell, and from where.

    Attributes:
        user: number, which files that are written belong to.
        group: number.
        checkout: the folder that is mounted, read and written.
        terminal: whether one is there.
    """

    user: int
    group: int
    checkout: Path
    terminal: bool


def find_client(environ: Mapping[str, str], which: Callable[[str], str | None]) -> list[str]:
    """The command that talks to the engine of DOCKER_HOST: docker, or podman.

    Args:
        environ: DOCKER_HOST is read from it.
        which: finds a program.

    Raises:
        CommandError: neither is installed.
    """
    host = environ.get("DOCKER_HOST", "")
    names = ("podman", "docker") if "podman" in host else ("docker", "podman")
    for name in names:
        path = which(name)
        if path is not None:
            return [path, "--url", host] if name == "podman" and host else [path]
    raise CommandError(
        "neither docker nor podman is installed, and the engine's own command is needed",
        where=without_secrets(host) or "PATH",
        remedy="install docker's or podman's command line",
    )


def shell_command(
    client: Sequence[str], image: str, caller: Caller, *, network: str | None, more: Sequence[str] = ()
) -> list[str]:
    """The words that open a shell.

    Args:
        client: see `find_client`.
        image: its name.
        caller: who asks.
        network: none, host or a name; None: the engine's default.
        more: words for the engine.
    """
    words = [*client, "run", "--rm", "--interactive", *(["--tty"] if caller.terminal else [])]
    words += ["--mount", bound(caller.checkout, WORKSPACE), "--workdir", WORKSPACE]
    # The image's home is group 0's; a checkout keeps the label that it has.
    words += [
        "--user",
        f"{caller.user}:{caller.group}",
        "--group-add",
        "0",
        "--security-opt",
        "label=disable",
    ]
    if Path(client[0]).name == "podman" and caller.user != 0:
        words += ["--userns", "keep-id"]
    return [*words, *(["--network", network] if network else []), *more, image, "shell"]


def become(words: Sequence[str], environ: Mapping[str, str] = os.environ) -> NoReturn:
    """Run a command in this process's place: terminal, signals and exit code are its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(words[0], list(words), environ)  # noqa: S606  # a terminal is handed over whole


def bound(source: Path, target: str, *, readonly: bool = False) -> str:
    """A folder or file of this machine in the image, as `--mount` takes it."""
    fields = ["type=bind", f"source={source}", f"target={target}", *(["readonly"] if readonly else [])]
    # A folder may have a comma in its name.
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()
