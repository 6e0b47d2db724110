"""Completion in real shells, by the Tab key where a shell has no other way to ask it."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.integration.conftest import need

from .world import ROOT, World

WAIT_S = 60
HOSTILE = "x$(touch pwned)`touch pwned`;touch pwned"


@pytest.fixture
def home(world: World) -> World:
    """A world with the command on its PATH, and a run whose name is a trap."""
    command = world.base / "bin" / "spyre-ci"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ci.cli "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    world.patch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    world.patch.setenv("PYTHONPATH", str(ROOT))
    world.patch.setenv("TERM", "dumb")
    shutil.copytree(world.folder / "runs" / "nightly", world.folder / "runs" / HOSTILE)
    return world


def script(shell: str) -> str:
    """What the command gives a shell to load."""
    need(shutil.which(shell) is not None, shell)
    environ = {**os.environ, "_SPYRE_CI_COMPLETE": f"source_{shell}"}
    return subprocess.run(
        ["spyre-ci"], env=environ, check=True, capture_output=True, text=True, timeout=WAIT_S
    ).stdout


@contextmanager
def terminal(*words: str) -> Iterator[int]:
    """A shell on a terminal; its file descriptor."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp(words[0], list(words))  # noqa: S606  # the shell is what is tested
    try:
        yield fd
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(fd)


def read_until(fd: int, wanted: str) -> str:
    """What the terminal shows until it shows that."""
    shown, end = "", time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if select.select([fd], [], [], 0.5)[0]:
            try:
                shown += os.read(fd, 65536).decode(errors="replace")
            except OSError:
                break
            plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\x08", "", shown)
            if wanted in plain:
                return plain
    pytest.fail(f"{wanted!r} was not shown in:\n{shown}")


def press_tab(fd: int, line: str, wanted: str) -> str:
    """Type a line, press Tab, and read."""
    os.write(fd, line.encode() + b"\t")
    return read_until(fd, wanted)


CASES = [
    ("spyre-ci quar", "quarantine"),
    ("spyre-ci report ni", "nightly"),
    ("spyre-ci flakes --fail-a", "--fail-above"),
    ("spyre-ci scope explain test_view_ops.py::TestViewOps::test_conti", "::test_contiguous"),
]


def loaded(fd: int, shell: str, before: str = "") -> None:
    """Have a shell load the script; its words come without an echo of the line."""
    os.write(fd, f"{before}source completion.{shell}; PS1='> '; echo lo''aded\n".encode())
    read_until(fd, "\nloaded")


def test_bash_completes(home: World) -> None:
    home.write("completion.bash", script("bash"))
    for line, wanted in CASES:
        with terminal("bash", "--norc", "--noprofile", "-i") as fd:
            loaded(fd, "bash")
            press_tab(fd, line, wanted)
    assert not (home.folder / "pwned").exists()


@pytest.mark.nightly
def test_zsh_completes(home: World) -> None:
    home.write("completion.zsh", script("zsh"))
    for line, wanted in CASES:
        with terminal("zsh", "-f", "-i") as fd:
            loaded(fd, "zsh", "autoload -Uz compinit; compinit -D -u; ")
            press_tab(fd, line, wanted)
    assert not (home.folder / "pwned").exists()


@pytest.mark.nightly
def test_fish_completes(home: World) -> None:
    home.write("completion.fish", script("fish"))
    # Each asks twice. With nothing typed all runs are offered, and the trap is not.
    cases = [("spyre-ci report ", "nightly"), CASES[-1]]
    asked = "; ".join(f'complete -C "{line}"' for line, _ in cases)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source completion.fish; {asked}"],
        check=True, capture_output=True, text=True, timeout=3 * WAIT_S,
    )  # fmt: skip
    for _, wanted in cases:
        assert wanted in done.stdout
    assert "pwned" not in done.stdout
    assert done.stderr == ""
    assert not (home.folder / "pwned").exists()


@pytest.mark.nightly
def test_completing_imports_no_torch_and_says_nothing(home: World) -> None:
    environ = {
        **os.environ, "_SPYRE_CI_COMPLETE": "complete_bash", "COMP_WORDS": "spyre-ci report ",
        "COMP_CWORD": "2", "PYTHONPROFILEIMPORTTIME": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "ci.cli"],
        env=environ,
        check=False,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert done.stdout.split() == ["latest", "nightly"]
    imported = {
        line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import")
    }
    assert "ci.cli.app" in imported
    assert not {"torch", "numpy", "fastapi", "uvicorn"} & imported
    assert [line for line in done.stderr.splitlines() if not line.startswith("import time:")] == []
    assert Path.cwd() == home.folder
