"""A run of a lane as processes of this machine: it outlives the worker that began it, and notes its end.

`start` runs `python -m ci.lanes.attempt`, which leaves its parent, runs the command, and holds a lock in the
attempt's folder while it lives. The kernel lets go of a lock however a process ends: that, and no process id,
says whether the attempt runs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ci.core.commands import kill_group, run_command, signal_name, start_command
from ci.core.errors import EXIT_OK, EXIT_TEST_FAILED, EXIT_USAGE, SpyreCiError
from ci.core.interrupts import noted
from ci.core.locks import take
from ci.lanes.ledger import Status
from ci.runner.child import module_words
from ci.runner.orphans import end_orphans
from test_selection.files import read_json, write_json

LOCK, STOP, END, OUTPUT, KIND = "lock", "stop", "end.json", "output.log", "lane-end"
# Every process of an attempt carries it, so that what a killed one leaves is found.
MARK = "SPYRE_CI_LANE_FOLDER"
START_S = 60.0
POLL_S = 0.1
FULL_DISK_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What an attempt runs.

    Attributes:
        command: program and arguments.
        environ: the whole environment, with the lane's secrets.
        cwd: working folder.
        limit_s: seconds it may take.
        ending_s: seconds it has to end in its own way once it is told to.
    """

    command: Sequence[str]
    environ: Mapping[str, str]
    cwd: Path
    limit_s: float
    ending_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How an attempt ended; `ended_at` is None where nobody knows when."""

    status: Status
    exit_code: int | None = None
    reason: str = ""
    ended_at: float | None = None


class Processes(Protocol):
    """Runs attempts, each in a folder of its own."""

    def start(self, folder: Path, launch: Launch) -> None:
        """Start an attempt; one that was started in this folder before is not started again."""

    def has_begun(self, folder: Path) -> bool:
        """True if an attempt was started in this folder."""

    def end_of(self, folder: Path) -> End | None:
        """How an attempt that has begun ended; None while it runs."""

    def stop(self, folder: Path) -> None:
        """Tell an attempt to end, now or once it begins; one that ended is no error."""


class LocalProcesses:
    """Attempts that run here."""

    def start(self, folder: Path, launch: Launch) -> None:
        """See Processes.

        Raises:
            CommandError: it does not begin.
        """
        folder.mkdir(parents=True, exist_ok=True)
        limits = [str(launch.limit_s), str(launch.ending_s)]
        words = [
            *module_words("ci.lanes.attempt"),
            str(folder),
            *limits,
            str(launch.cwd),
            *launch.command,
        ]
        run_command(words, timeout_s=START_S, env=launch.environ)

    def has_begun(self, folder: Path) -> bool:
        """See Processes."""
        return (folder / OUTPUT).exists()

    def end_of(self, folder: Path) -> End | None:
        """See Processes."""
        if not (folder / END).exists():
            if _is_held(folder):
                return None
            if not (folder / END).exists():
                # Nothing of it is to go on beside the next attempt.
                end_orphans(str(folder.resolve()), variable=MARK)
                return End(status=Status.GONE, reason="its processes ended without an exit code")
        end = read_json(folder / END, KIND)
        code, stopped = end["exit_code"], end["stopped"]
        reason = f"ended by {signal_name(-code)}" if code is not None and code < 0 else end["reason"]
        return End(status=_status(code, stopped), exit_code=code, reason=reason, ended_at=end["at"])

    def stop(self, folder: Path) -> None:
        """See Processes."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / STOP).touch()  # a name and nothing in it: a full disk has room for that


def _status(code: int | None, stopped: str) -> Status:
    """The status of an end; what was told to end gave no answer, whatever its code."""
    if stopped:
        return Status(stopped)
    answers = {EXIT_OK: Status.PASSED, EXIT_TEST_FAILED: Status.FAILED, EXIT_USAGE: Status.FAILED}
    return Status.INCOMPLETE if code is None else answers.get(code, Status.INCOMPLETE)


def _is_held(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not take(descriptor)
    finally:
        os.close(descriptor)


def main(arguments: Sequence[str]) -> int:
    """Run an attempt in a process of its own; returns once it has begun, or had begun before."""
    folder, limit_s, ending_s, cwd, *command = arguments
    begun, begins = os.pipe()
    if os.fork():
        os.close(begins)
        # A byte: it has begun, or need not. Nothing: it died, and its words are on the standard error.
        return 0 if os.read(begun, 1) else 1
    os.close(begun)
    os.setsid()
    # A worker in the background of a shell has Ctrl-C ignored; a run would neither hear it nor end.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    launch = Launch(
        command=command, environ=os.environ, cwd=Path(cwd), limit_s=float(limit_s), ending_s=float(ending_s)
    )
    with noted() as heard:
        run_attempt(Path(folder), launch, heard, begins)
    return 0


def run_attempt(folder: Path, launch: Launch, heard: Sequence[int], begins: int) -> None:
    """Run an attempt's command unless its folder says that it ran, and write its end down.

    Args:
        folder: of the attempt.
        launch: what it runs; its limit holds whether a worker is there or not.
        heard: interrupts that came; any of them tells it to end.
        begins: descriptor that gets a byte once it has begun, or need not.
    """
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    first = take(lock) and not (folder / OUTPUT).exists()
    output = os.open(folder / OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with contextlib.suppress(OSError):  # whoever asked is gone, and the run goes on
        os.write(begins, b".")
    if not first:
        return
    for stream in (sys.stdout, sys.stderr):  # whoever began it may be gone; a traceback goes to the output
        os.dup2(output, stream.fileno())
    try:
        code, stopped = _run(folder, launch, output, heard)
        reason = f"exceeded its limit of {launch.limit_s:g} s" if stopped == Status.TIMED_OUT else ""
    except SpyreCiError as error:
        code, stopped, reason = None, "", error.what
    # What left the process group is not to run beside the next attempt.
    end_orphans(str(folder.resolve()), variable=MARK)
    end = {"exit_code": code, "stopped": stopped, "reason": reason, "at": time.time()}
    while True:
        try:
            write_json(folder / END, KIND, end)
        except OSError:
            time.sleep(FULL_DISK_S)  # until then it counts as running
        else:
            return


def _run(folder: Path, launch: Launch, output: int, heard: Sequence[int]) -> tuple[int | None, str]:
    """Run the command; its exit code, and the status it was told to end with, or nothing."""
    if (folder / STOP).exists():
        return None, Status.CANCELLED
    environ = {**launch.environ, MARK: str(folder.resolve())}
    process = start_command(launch.command, cwd=launch.cwd, env=environ, output=output)
    limit_at, stopped, killed_at = time.monotonic() + launch.limit_s, "", 0.0
    try:
        while process.poll() is None:
            now = time.monotonic()
            if not stopped and (now > limit_at or heard or (folder / STOP).exists()):
                stopped = Status.TIMED_OUT if now > limit_at else Status.CANCELLED
                killed_at = now + launch.ending_s
                # As Ctrl-C on a terminal: nox waits for what it started, which writes its account.
                kill_group(process.pid, signal.SIGINT)
            if stopped and now > killed_at:
                kill_group(process.pid)
            time.sleep(POLL_S)
    finally:
        kill_group(process.pid)
        process.wait()
    return process.returncode, stopped


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
