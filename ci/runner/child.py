"""A child that works on one test file and may crash, hang or exit: started, ordered, and ended as a group.

Where a prepared parent may fork, the child has torch and the test machinery from the start; elsewhere
(macOS, or on request) it is a fresh process that imports them itself.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ci
from ci.core.commands import kill_group
from ci.core.other_processes import die_with_parent
from ci.runner import prepared_parent
from ci.runner.channel import Lines, Order, Sender, read_answer

# Of an installation this is where packages are, of a checkout the checkout.
HOME = Path(ci.__file__).parents[1]
# A child that fell over outside of any test; sysexits.h calls it an internal software error.
EXIT_INTERNAL = 70
# As a shell has it for a program that SIGTERM ended.
EXIT_TERMINATED = 128 + signal.SIGTERM
DUMP_SIGNAL = signal.SIGUSR1
# A process in the kernel's uninterruptible sleep, such as in a driver, does not end by any signal until the
# driver lets it. Longer than this nobody waits for it.
KILL_S = 30.0
NEVER_ENDS = "a process cannot be ended, so it hangs in the kernel, and most likely in the card's driver"
_POLL_S = 0.02
_MACHINERY = re.compile(r'Extension modules: |  File ".*/(_pytest|pluggy|importlib)/|  File "<frozen ')
Body = Callable[[Mapping[str, Any]], int]


def module_words(name: str, *, here: Path | None = None, home: Path = HOME) -> list[str]:
    """The words that run a module of ours, without the folder that it is called in among what it imports.

    A back end's checkout has a folder that is called as what it installs (`torch_spyre/`), where nothing is
    compiled. `python -m` takes the folder it is called in for a place of packages, and would import that.

    Args:
        name: of the module.
        here: the folder that it is called in; None: this process's.
        home: where our own packages are. Called there, nothing else may say where they are.
    """
    try:
        here = Path.cwd() if here is None else here
    except FileNotFoundError:  # removed meanwhile: nothing is imported from there
        return [sys.executable, "-P", "-m", name]
    return [sys.executable, *([] if here == home else ["-P"]), "-m", name]


class Pipes:
    """A worker's ends of the pipes to its child, over which it is ordered what to do, order by order.

    Attributes:
        theirs: the child's ends, for orders and for answers.
        ours: this process's.
        refused: whether the child said that it cannot write to the journal, and ended for it.
    """

    def __init__(self) -> None:
        """Make them; the child is to answer once it has set its file up."""
        to_child, orders = os.pipe()
        answers, from_child = os.pipe()
        self.theirs, self.ours = (to_child, from_child), (orders, answers)
        self.refused = False
        self._orders, self._answers = Sender(orders), Lines(answers)
        self._open = True
        self._unanswered = 1

    def started(self) -> None:
        """The child has its ends."""
        for descriptor in self.theirs:
            os.close(descriptor)

    def order(self, order: Order) -> None:
        """Have the child do something; it may be setting the file up, and read nothing meanwhile."""
        self._orders.send(order.line())
        self._unanswered += 1

    @property
    def answered(self) -> bool:
        """Whether it has done all it was told to, as far as was heard."""
        return self._unanswered <= 0

    def listen(self, timeout_s: float) -> None:
        """Wait for an answer, at most so long."""
        if self._open:
            self._orders.push()
        if self._answers.ended:
            time.sleep(timeout_s)  # a test has closed the pipe; how the child ends is seen all the same
        for answer in filter(None, map(read_answer, self._answers.read(timeout_s))):
            self.refused = self.refused or answer.what == "refused"
            self._unanswered -= answer.what != "refused"

    def dismiss(self) -> None:
        """Tell the child that there is nothing more; what it does then is its ending."""
        if self._open:
            self._open = False
            os.close(self.ours[0])

    def close(self) -> None:
        """Let go of them; the child has ended."""
        self.dismiss()
        with contextlib.suppress(OSError):
            os.close(self.ours[1])


@dataclass(slots=True, kw_only=True)
class ChildProcess:
    """A running child.

    Attributes:
        pid: its process id, also that of its process group.
        log: the file its standard output and error go to.
        process: where it was spawned rather than forked.
    """

    pid: int
    log: Path
    process: subprocess.Popen[bytes] | None = None
    _code: int | None = None

    @property
    def forked(self) -> bool:
        """Whether it began as a copy of this process."""
        return self.process is None

    def poll(self) -> int | None:
        """The exit code, negative for a signal as `subprocess` has it, or None while it runs."""
        if self.process is not None:
            return self.process.poll()
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def dump_stacks(self) -> None:
        """Ask for the stack of every thread, written to the log.

        Only the child itself is asked: what it started may know nothing of the signal and would die by it.
        """
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, DUMP_SIGNAL)

    def kill(self) -> None:
        """End the child with everything it started."""
        kill_group(self.pid)

    def last_lines(self, count: int | None = 50, *, start: int = 0) -> str:
        """The end of what it printed, from byte `start` on."""
        return last_lines(self.log, count, start=start)


def gone(
    child: ChildProcess,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> bool:
    """Whether a child that was killed ends within `KILL_S` seconds."""
    deadline = clock() + KILL_S
    while child.poll() is None:
        if clock() > deadline:
            return False
        sleep(_POLL_S)
    return True


def log_of(folder: Path, number: int) -> Path:
    """The log of a child by its number; it is there as soon as the child does anything."""
    return folder / f"{number}.log"


def start(
    body: Body,
    spec: Mapping[str, Any],
    *,
    log: Path,
    method: str,
    pipes: Pipes | None = None,
    keep_back: Sequence[int] = (),
) -> ChildProcess:
    """Start a child that runs `body(spec)`.

    Args:
        body: a function at the top of a module; its return value is the exit code.
        spec: JSON values; `threads` and `device` are read here.
        log: takes everything the child prints, appended.
        method: `fork` (this process must be prepared) or `spawn`.
        pipes: over which it is ordered what to do; it finds its ends as `orders` and `answers`.
        keep_back: file descriptors a forked child closes.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    theirs, ours = ((), ()) if pipes is None else (pipes.theirs, pipes.ours)
    spec = {**spec, **dict(zip(("orders", "answers"), theirs, strict=False))}
    try:
        if method == "fork":
            return _fork(body, spec, log, [*ours, *keep_back])
        return _spawn(body, spec, log, theirs)
    finally:
        if pipes is not None:
            pipes.started()


def last_lines(log: Path, count: int | None, *, start: int = 0) -> str:
    """The last `count` lines of a file from byte `start` on, of which at most the last 64 KiB are read.

    With None, all lines of these are kept.

    In a dumped stack the frames of pytest itself, and the list of every loaded extension, are left out:
    they fill a screen and say nothing of the test.
    """
    try:
        with log.open("rb") as stream:
            size = log.stat().st_size
            # A file that is shorter than `start` was begun anew meanwhile.
            stream.seek(max(start if start <= size else 0, size - 65536))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [line for line in text.splitlines() if not _MACHINERY.match(line)]
    return "\n".join(lines if count is None else lines[-count:])


def _fork(body: Body, spec: Mapping[str, Any], log: Path, keep_back: Sequence[int]) -> ChildProcess:
    parent = os.getpid()
    # What lives now is left alone by the children's collector, so its pages stay shared.
    gc.collect()
    gc.freeze()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        for descriptor in keep_back:
            os.close(descriptor)
        _run(body, spec, log, parent)
    return ChildProcess(pid=pid, log=log)


def _run(body: Body, spec: Mapping[str, Any], log: Path, parent: int) -> None:
    """The child's whole life; never returns."""
    code = EXIT_INTERNAL
    try:
        os.setsid()
        die_with_parent(parent)
        _to_log(log)
        _own_signals_and_streams()
        code = _guarded(body, spec)
    finally:
        # Not sys.exit: the parent's exit handlers and torch's teardown are not the child's to run.
        os._exit(code)


def _guarded(body: Body, spec: Mapping[str, Any]) -> int:
    faulthandler.enable(file=sys.stderr, all_threads=True)
    faulthandler.register(DUMP_SIGNAL, file=sys.stderr, all_threads=True)
    prepared_parent.set_threads(int(spec["threads"]))
    try:
        code = body(spec)
    except BaseException:  # noqa: BLE001  # a test may raise anything, and the log must show it
        traceback.print_exc()
        code = EXIT_INTERNAL
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return code


def _to_log(log: Path) -> None:
    """Output and error go to the log."""
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)


def _own_signals_and_streams() -> None:
    """What a test meets in any child: a signal ends it, nothing to read, no printed line lost by a crash."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def _spawn(body: Body, spec: Mapping[str, Any], log: Path, hand_on: Sequence[int]) -> ChildProcess:
    task = {"body": f"{body.__module__}:{body.__qualname__}", "spec": dict(spec), "parent": os.getpid()}
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        process = subprocess.Popen(
            module_words("ci.runner.child"),
            stdin=subprocess.PIPE,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
            pass_fds=tuple(hand_on),
        )
    finally:
        os.close(descriptor)
    assert process.stdin is not None  # noqa: S101  # PIPE was asked for
    # A child that ended before it read its task is told of by its exit code.
    with contextlib.suppress(BrokenPipeError), process.stdin as stream:
        stream.write(json.dumps(task).encode())
    return ChildProcess(pid=process.pid, log=log, process=process)


def main() -> None:
    """The life of a spawned child: its task is on standard input."""
    began = time.perf_counter()
    task = json.load(sys.stdin)
    die_with_parent(int(task["parent"]))
    _own_signals_and_streams()
    prepared_parent.single_thread(os.environ)
    prepared_parent.import_torch(task["spec"]["device"], machinery=task["spec"]["machinery"])
    module, _, name = str(task["body"]).partition(":")
    __import__(module)
    # A forked child had that from its parent: here it is part of what setting a file up takes.
    spec = {**task["spec"], "imports_s": time.perf_counter() - began}
    os._exit(_guarded(getattr(sys.modules[module], name), spec))


if __name__ == "__main__":
    main()
