"""Tests run as their pod's user, and still cannot read its keys."""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from ci.jobs.pod import close_process

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="procfs is Linux's"),
]
NOBODY = 65534


def read_parent() -> str:
    """What a child of this process gets of its environment."""
    parent = os.getpid()
    ours, theirs = os.pipe()
    if not os.fork():
        try:
            said = f"{len(Path(f'/proc/{parent}/environ').read_bytes()) > 0}"
        except OSError as error:
            said = type(error).__name__
        os.write(theirs, said.encode())
        os._exit(0)
    os.wait()
    return os.read(ours, 100).decode()


def as_a_user(end: Connection) -> None:
    if os.geteuid() == 0:  # who may do everything may do that
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    close_process(closed=False)  # another user's process is closed to begin with
    before = read_parent()
    end.send((before, close_process(), read_parent()))


def test_a_closed_process_tells_its_own_user_nothing_of_its_environment() -> None:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=as_a_user, args=(there,))
    process.start()
    assert here.poll(30)
    before, closed, after = here.recv()
    process.join(30)
    assert (before, closed, after) == ("True", True, "PermissionError")
