"""A command is tended as a container's first process tends its own: told of signals, leaving no zombie."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ci.core.commands import tend_command
from ci.core.errors import CommandError

ROOT = Path(__file__).parent.parent.parent
TEND = """
import sys
from ci.core.commands import tend_command
def output(data):
    sys.stdout.buffer.write(data)
    sys.stdout.flush()
code, heard = tend_command(
    [sys.executable, "-c", sys.argv[1]], output=output,
    env={"PATH": "/usr/bin"}, ending_s=float(sys.argv[2]), orphans=len(sys.argv) > 3,
)
print("ended", code, [int(one) for one in heard], flush=True)
"""
# Orphans of what it starts come to it, as to the first process of a container.
REAPER = "import ctypes; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)" + TEND
POLITE = """
import os, signal, sys, time
# Not by print: the signal may come while "up" is still being printed.
signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"bye\\n"), sys.exit(5)))
print("up", flush=True)
time.sleep(60)
"""
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(60)
"""
ORPHANS = """
import os, sys, time
for _ in range(5):
    if os.fork() == 0:
        if os.fork() == 0:
            time.sleep(0.2)
        os._exit(0)
    os.wait()
print("up", flush=True)
time.sleep(1.5)
"""


def tend(program: str, *words: str, tending: str = TEND) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", tending, program, *words], env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_what_a_command_prints_is_handed_on_with_its_code() -> None:
    printed: list[bytes] = []
    program = "import sys; print('out'); sys.stdout.flush(); print('err', file=sys.stderr); sys.exit(3)"
    found = tend_command(
        [sys.executable, "-c", program], output=printed.append, env={}, ending_s=5, orphans=False
    )
    assert (found, b"".join(printed)) == ((3, []), b"out\nerr\n")


def test_a_command_that_is_not_there_is_told_of() -> None:
    with pytest.raises(CommandError, match="is not installed"):
        tend_command(["/no/such/program"], output=print, env={}, ending_s=5, orphans=False)


def test_a_command_that_closed_its_outputs_is_waited_for() -> None:
    program = "import os, sys, time; os.close(1); os.close(2); time.sleep(0.5); os._exit(4)"
    assert tend_command([sys.executable, "-c", program], output=print, env={}, ending_s=5, orphans=False) == (
        4,
        [],
    )


def test_a_signal_is_handed_on_and_the_command_ends_in_its_own_way() -> None:
    with tend(POLITE, "30") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "bye\nended 5 [15]\n"


def test_a_command_that_does_not_listen_is_killed_after_its_time() -> None:
    with tend(DEAF, "0.5") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "ended -9 [15]\n"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")
def test_what_lost_its_parent_leaves_no_zombie() -> None:
    with tend(ORPHANS, "5", "orphans", tending=REAPER) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        time.sleep(0.8)
        assert zombies(process.pid) == 0
        assert process.stdout.read() == "ended 0 []\n"


def zombies(parent: int) -> int:
    found = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, ppid = path.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[:2]
        except OSError:
            continue
        found += (state, ppid) == ("Z", str(parent))
    return found
