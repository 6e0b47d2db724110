"""The guard of tests/conftest.py holds."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest


def test_a_unit_test_cannot_start_a_process() -> None:
    with pytest.raises(pytest.fail.Exception, match="move it to tests/integration"):
        subprocess.run([sys.executable, "-c", ""], check=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_unit_test_cannot_fork() -> None:
    with pytest.raises(pytest.fail.Exception, match="called fork"):
        os.fork()


def test_a_unit_test_cannot_connect() -> None:
    with socket.socket() as one, pytest.raises(pytest.fail.Exception, match="called connect"):
        one.connect(("127.0.0.1", 9))


def test_a_unit_test_cannot_listen() -> None:
    with socket.socket() as one, pytest.raises(pytest.fail.Exception, match="called listen"):
        one.listen()
