"""Between the worker and a run of a lane here: begins it, ends it, and writes both down.

Started as `python -m ci.lanes.wrapper FOLDER LIMIT_S ENDING_S CWD COMMAND...`; it leaves whoever started it,
so that a run, its time limit and its account outlive a worker. It holds a lock in the folder for as long as
it lives, which the kernel lets go of however it ends: that, and no process id, says whether it is there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ci.core.errors import SpyreCiError
from ci.core.interrupts import noted
from ci.core.locks import take
from ci.core.process import kill_group, start_command
from ci.runner.orphans import end_orphans
from test_selection.files import write_json

_UNIT = 1 << 30  # a GiB
MOST_BYTES = _UNIT
# So much of the beginning, and of the end at that moment, stays.
KEPT_BYTES = 16 << 20
LOCK, BEGIN, ASKED, END, OUTPUT = "lock", "begin.json", "asked-to-end", "end.json", "output.log"
BEGIN_KIND, END_KIND = "lane-begin", "lane-end"
# Every process of a run carries it, so that what a lost wrapper leaves is found.
MARK = "SPYRE_CI_LANE_RUN"
POLL_S = 0.1
FULL_DISK_S = 5.0
# Why a run was told to end, as its end has it.
BY_LIMIT, BY_OTHERS = "limit", "asked"


class LongOutput:
    """The file that a run prints into, opened to read and to append; who prints notices nothing.

    Args:
        descriptor: of the file.
        most: bytes it may have before it is cut.
        kept: bytes at its beginning, and as many at its end, that stay.
    """

    def __init__(self, descriptor: int, *, most: int = MOST_BYTES, kept: int = KEPT_BYTES) -> None:
        self._descriptor, self._most, self._kept = descriptor, most, kept
        self._cut = 0

    def check(self) -> None:
        """Cut the middle out where it is too long.

        Raises:
            OSError: the file cannot be changed.
        """
        size = os.fstat(self._descriptor).st_size
        if size <= self._most:
            return
        tail = os.pread(self._descriptor, self._kept, size - self._kept)
        self._cut += size - 2 * self._kept
        # What is printed between these two lines is lost with the rest.
        os.ftruncate(self._descriptor, self._kept)
        note = f"\n[{self._cut / _UNIT:.2f} GiB of what it printed are cut out here]\n"
        os.write(self._descriptor, note.encode() + tail)


def mark_of(folder: Path) -> str:
    """What the processes of a run in a folder carry."""
    return str(folder.resolve())


def held(folder: Path) -> bool:
    """Whether a wrapper works in a folder.

    Raises:
        OSError: the folder's file system has no locks.
    """
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not take(descriptor)
    finally:
        os.close(descriptor)


def main(arguments: Sequence[str]) -> int:
    """Begin a run in a process of its own; returns when it has begun, or another one has begun it."""
    folder, limit_s, ending_s, cwd, *words = arguments
    mine, its = os.pipe()
    if os.fork():
        os.close(its)
        # A byte: it has begun, or need not; nothing: it died, and its words are on the standard error.
        return 0 if os.read(mine, 1) else 1
    os.close(mine)
    os.setsid()
    # A worker in the background of a shell has Ctrl-C ignored; a run would neither hear it nor end.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with noted() as heard:
        tend(
            Path(folder),
            words,
            cwd=Path(cwd),
            environ=os.environ,
            limit_s=float(limit_s),
            ending_s=float(ending_s),
            heard=heard,
            begun=lambda: _tell(its),
        )
    return 0


def _tell(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # whoever asked is gone, and the run goes on
        os.write(descriptor, b".")


def tend(
    folder: Path,
    words: Sequence[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    limit_s: float,
    ending_s: float,
    heard: Sequence[int],
    begun: Callable[[], object],
) -> None:
    """Run the command unless it was begun before, and write its end down.

    Args:
        folder: of the attempt.
        words: the command.
        cwd: it runs in.
        environ: its environment, but for the mark.
        limit_s: seconds it may take; then it is told to end, whether a worker is there and can write or not.
        ending_s: seconds it may take to end once it was told to; then its group is killed.
        heard: interrupts that came; any of them tells it to end.
        begun: is called once it is known to have begun.
    """
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not take(lock):
        begun()
        return
    if (folder / BEGIN).exists():  # it was begun, and is over
        begun()
        return
    output = os.open(folder / OUTPUT, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    write_json(folder / BEGIN, BEGIN_KIND, {"pid": os.getpid(), "at": time.time()})
    _leave_streams(output)
    begun()
    try:
        end: dict[str, Any] = _run(
            words,
            cwd=cwd,
            environ={**environ, MARK: mark_of(folder)},
            output=output,
            limit_s=limit_s,
            ending_s=ending_s,
            told=lambda: bool(heard) or (folder / ASKED).exists(),
        )
    except SpyreCiError as error:
        end = {"exit_code": None, "told": "", "said": error.what}
    # What went its own way, out of the group, is not to run beside the next attempt.
    end_orphans(mark_of(folder), variable=MARK)
    _write_end(folder / END, end)


def _leave_streams(output: int) -> None:
    """Let go of what whoever started this reads; a traceback of this process goes to the run's output."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream, instead in ((0, nothing), (1, output), (2, output)):
        os.dup2(instead, stream)
    os.close(nothing)


def _run(
    words: Sequence[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    output: int,
    limit_s: float,
    ending_s: float,
    told: Callable[[], bool],
) -> dict[str, Any]:
    if told():
        return {"exit_code": None, "told": BY_OTHERS, "said": "was told to end before it began"}
    process = start_command(words, cwd=cwd, env=environ, output=output)
    printed, begun_at = LongOutput(output), time.monotonic()
    why, asked_at = "", 0.0
    try:
        while process.poll() is None:
            now = time.monotonic()
            if not why and (why := _why(late=now > begun_at + limit_s, told=told)):
                asked_at = now
                # As Ctrl-C on a terminal: nox waits for what it started, which writes its account.
                kill_group(process.pid, signal.SIGINT)
            if why and now > asked_at + ending_s:
                kill_group(process.pid)
            with contextlib.suppress(OSError):  # it is tried again
                printed.check()
            time.sleep(POLL_S)
    finally:
        kill_group(process.pid)
        process.wait()
    said = f"took longer than its {limit_s:g} s" if why == BY_LIMIT else ""
    return {"exit_code": process.returncode, "told": why, "said": said}


def _why(*, late: bool, told: Callable[[], bool]) -> str:
    """What a run is told to end for now; empty where it is not."""
    if late:
        return BY_LIMIT
    return BY_OTHERS if told() else ""


def _write_end(path: Path, end: Mapping[str, Any]) -> None:
    """Write how it ended, however long a disk stays full: until then it counts as running."""
    while True:
        try:
            write_json(path, END_KIND, end)
        except OSError:
            time.sleep(FULL_DISK_S)
        else:
            return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
