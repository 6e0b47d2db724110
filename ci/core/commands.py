"""The one place that starts commands: an argv list, no shell, a time-out, the whole group ended.

A command that runs for as long as it takes is tended as the first process of a container tends its own.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ci.core.errors import CommandError
from ci.core.interrupts import noted

LAST_LINES = 20
# How often somebody who may say that it is enough is asked, and how long a command has to end then.
SLICE_S = 0.5
STOP_S = 5.0
_POLL_S = 0.1


def run_command(
    argv: Sequence[str | Path],
    *,
    timeout_s: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    remedy: str | None = None,
) -> str:
    """Run a command to its end and return its standard output.

    Args:
        argv: program and arguments; never a shell line.
        timeout_s: seconds after which the whole process group is killed.
        cwd: working folder.
        env: the whole environment; None hands on this process's.
        remedy: what the user does when it fails.

    Raises:
        CommandError: it is not installed, ended with another code than 0, or took too long; with its
            quoted command line and the last lines it printed.
    """
    ended = finish_command(argv, timeout_s=timeout_s, cwd=cwd, env=env, remedy=remedy)
    refuse_failed(list(map(str, argv)), ended, remedy=remedy)
    return _text(ended.stdout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A command that came to its end.

    Attributes:
        code: its exit code; below 0 a signal's number.
        stdout: what it printed, as bytes: names of files need not be text.
        stderr: what else it said.
    """

    code: int
    stdout: bytes
    stderr: bytes


def refuse_failed(words: Sequence[str], ended: Ended, *, remedy: str | None) -> None:
    """Raise an error for a command that failed.

    Args:
        words: program and arguments.
        ended: how it ended.
        remedy: what the user does.

    Raises:
        CommandError: its code is not 0; with the quoted command line and the last lines it printed.
    """
    if ended.code != 0:
        said = _text(ended.stderr) or _text(ended.stdout)
        tail = "".join(f"\n  | {line}" for line in said.splitlines()[-LAST_LINES:])
        raise CommandError(f"ended with code {ended.code}: {shlex.join(words)}{tail}", remedy=remedy)


def finish_command(
    argv: Sequence[str | Path],
    *,
    timeout_s: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stop: Callable[[], bool] = lambda: False,
    remedy: str | None = None,
) -> Ended:
    """Run a command to its end, whatever code it ends with: for those whose codes say what they found.

    Args:
        argv: program and arguments; never a shell line.
        timeout_s: seconds after which the whole process group is killed.
        cwd: working folder.
        env: the whole environment; None hands on this process's.
        stop: says that it is enough; the command is then told to end, and soon killed.
        remedy: what the user does when it cannot be started, or takes too long.

    Raises:
        CommandError: it is not installed, cannot be started, or took too long.
    """
    words = [str(word) for word in argv]
    with start_command(words, cwd=cwd, env=env, remedy=remedy) as process:  # its pipes are closed at the end
        try:
            stdout, stderr = _communicate(process, timeout_s, stop)
        except subprocess.TimeoutExpired as error:
            said = f"took longer than {timeout_s:g} s: {shlex.join(words)}"
            raise CommandError(said, remedy=remedy) from error
        finally:
            kill_group(process.pid)  # whatever becomes of it, nothing of its group is left
    return Ended(code=process.returncode, stdout=stdout, stderr=stderr)


def stream_command(
    argv: Sequence[str | Path],
    *,
    timeout_s: float,
    line: Callable[[str], object],
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> int:
    """Run a command, hand on each line it prints while it runs, and return its exit code.

    A code below 0 is a signal's number. Both its outputs are one, in the order it wrote them.

    Args:
        argv: program and arguments; never a shell line.
        timeout_s: seconds after which the whole process group is killed.
        line: takes each line, without its end.
        cwd: working folder.
        env: the whole environment; None hands on this process's.

    Raises:
        CommandError: it is not installed, or took too long.
    """
    words = [str(word) for word in argv]
    end = time.monotonic() + timeout_s
    process = start_command(words, cwd=cwd, env=env, joined=True)
    assert process.stdout is not None  # noqa: S101  # a pipe was asked for
    pending = b""

    def split(data: bytes) -> None:
        nonlocal pending
        *whole, pending = (pending + data).split(b"\n")
        for one in whole:
            line(one.decode(errors="replace").rstrip("\r"))

    try:
        with _reading(process.stdout) as selector:
            while selector.get_map():
                if (left := end - time.monotonic()) <= 0:
                    raise TimeoutError
                _hand_over(selector, split, min(left, 1.0))
        if pending:
            split(b"\n")
        return process.wait(max(end - time.monotonic(), 0))
    except (TimeoutError, subprocess.TimeoutExpired) as error:
        raise CommandError(f"took longer than {timeout_s:g} s: {shlex.join(words)}") from error
    finally:
        kill_group(process.pid)
        process.wait()


def tend_command(
    argv: Sequence[str | Path],
    *,
    output: Callable[[bytes], object],
    env: Mapping[str, str],
    ending_s: float,
    orphans: bool,
) -> tuple[int, list[int]]:
    """Run a command to its end; interrupts are handed on to it, so that it ends in its own way.

    Args:
        argv: program and arguments; never a shell line.
        output: takes what it prints, both outputs as one.
        env: the whole environment.
        ending_s: how long it may take to end once it was told to, in seconds; then its group is killed.
        orphans: whether processes that lost their parent come to this one, which buries them.

    Returns:
        Its exit code, below 0 a signal's number, and the interrupts that came.

    Raises:
        CommandError: it is not installed, or cannot be started.
    """
    with noted() as heard:
        process = start_command(list(map(str, argv)), cwd=None, env=env, joined=True)
        assert process.stdout is not None  # noqa: S101  # a pipe was asked for
        told, end = 0, math.inf
        try:
            with _reading(process.stdout) as selector:
                while process.poll() is None:
                    _hand_over(selector, output, _POLL_S)
                    if len(heard) > told:
                        end = min(end, time.monotonic() + ending_s)
                        process.send_signal(heard[told])
                        told += 1
                    if time.monotonic() > end:
                        kill_group(process.pid)
                    if orphans:
                        _bury_orphans(process.pid)
                while _hand_over(selector, output, 0):
                    pass
        finally:
            kill_group(process.pid)
            process.wait()
        if orphans:
            _bury_orphans(process.pid)
    return process.returncode, heard


def _bury_orphans(child: int) -> None:
    """Take the exit codes of ended processes that were left to this one, all but that of `child`.

    Only the first process of a container has any, and containers are Linux.
    """
    if sys.platform == "linux":
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None or ended.si_pid == child:
                return
            os.waitpid(ended.si_pid, 0)


@contextlib.contextmanager
def _reading(stream: IO[bytes]) -> Iterator[selectors.BaseSelector]:
    """Read a command's output without waiting for it, with `_hand_over`; it is closed at the end."""
    os.set_blocking(stream.fileno(), False)
    with selectors.DefaultSelector() as selector, stream:
        selector.register(stream, selectors.EVENT_READ)
        yield selector


def _hand_over(selector: selectors.BaseSelector, output: Callable[[bytes], object], wait_s: float) -> bool:
    """Hand on what was printed, and say whether there was anything; waits for it a moment.

    Args:
        selector: of `_reading`; it has nothing left once the output was closed.
        output: takes what was printed.
        wait_s: for how long.
    """
    if not selector.get_map():
        time.sleep(wait_s)  # it closed its outputs and goes on
        return False
    for key, _ in selector.select(wait_s):
        if data := os.read(key.fd, 1 << 16):
            output(data)
            return True
        selector.unregister(key.fileobj)
    return False


def start_command(
    words: Sequence[str],
    *,
    cwd: Path | None,
    env: Mapping[str, str] | None,
    joined: bool = False,
    output: int | None = None,
    remedy: str | None = None,
) -> subprocess.Popen[bytes]:
    """Start a command as the leader of a process group of its own, with nothing to read.

    Args:
        words: program and arguments.
        cwd: working folder.
        env: the whole environment; None hands on this process's.
        joined: both its outputs are one.
        output: descriptor of the file that both its outputs go to; None: pipes.
        remedy: what the user does when it cannot be started.

    Raises:
        CommandError: it is not installed, or cannot be started.
    """
    try:
        return subprocess.Popen(
            words,
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if output is None else output,
            stderr=subprocess.STDOUT if joined or output is not None else subprocess.PIPE,
            start_new_session=True,
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        # The working folder may be what is not found, and the program what the error is thought to be of.
        if cwd is not None and not cwd.is_dir():
            raise CommandError(
                "there is no such folder to run in", where=cwd, remedy="check the path"
            ) from error
        why = (
            "is not installed"
            if isinstance(error, FileNotFoundError)
            else f"cannot be started: {error.strerror}"
        )
        raise CommandError(f"{words[0]!r} {why}", remedy=remedy or f"install {words[0]}") from error


def _communicate(
    process: subprocess.Popen[bytes], timeout_s: float, stop: Callable[[], bool]
) -> tuple[bytes, bytes]:
    """What a command printed, by itself or told to end."""
    end = time.monotonic() + timeout_s
    while not stop():
        left = end - time.monotonic()
        try:
            return process.communicate(timeout=max(min(left, SLICE_S), 0))
        except subprocess.TimeoutExpired:
            if left <= SLICE_S:
                raise
    kill_group(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.communicate(timeout=STOP_S)
    kill_group(process.pid)
    return process.communicate(timeout=STOP_S)


def _text(data: bytes) -> str:
    """What a command printed, with every end of line as one character."""
    return data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")


def signal_name(number: int) -> str:
    """Such as SIGSEGV; a real-time signal, which has no name, is shown by its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def kill_group(pid: int, signum: int = signal.SIGKILL) -> None:
    """Send `signum` to the process group led by `pid`; a group that is gone is no error."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signum)
