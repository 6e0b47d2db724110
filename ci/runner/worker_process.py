"""The supervisor's side of one worker: its process, its pipes, and the journal it writes."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ci.core.commands import kill_group
from ci.record.events import JournalEvent
from ci.runner.channel import Answer, Attempt, Lines, Order, Sender, Task, read_answer
from ci.runner.child import KILL_S, module_words
from ci.runner.orphans import VARIABLE, end_orphans
from ci.runner.watchdog import JournalTail, read_file


class WorkerProcess:
    """A worker process that takes orders.

    Attributes:
        attempt: what it works at.
        process: the process.
        refused: the number of the error for which it can no longer write its journal.
    """

    def __init__(
        self,
        task: Task,
        environ: Mapping[str, str],
        hand_on: Sequence[int] = (),
        *,
        read: Callable[[Path, int], bytes] = read_file,
    ) -> None:
        """Start the worker.

        Args:
            task: what it is told once.
            environ: its whole environment, the card's variables included.
            hand_on: file descriptors it keeps open, such as those that hold its cards' leases.
            read: what a journal holds from a byte on.

        Raises:
            OSError: the process cannot be started.
        """
        self.attempt = attempt = task.attempt
        self.refused: int | None = None
        self._mark = f"{os.getpid()}:{attempt.journal}"
        with attempt.log.open("ab") as stream:
            self.process = subprocess.Popen(
                module_words("ci.runner.worker"),
                env={**environ, VARIABLE: self._mark},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                start_new_session=True,
                pass_fds=tuple(hand_on),
            )
        assert self.process.stdin is not None and self.process.stdout is not None  # noqa: PT018, S101  # PIPE was asked for
        self._orders = Sender(self.process.stdin.fileno())
        self._answers = Lines(self.process.stdout.fileno())
        self._read = read
        self._tail = self._tail_of(attempt)
        # A worker that ended before it read its task is noticed as lost.
        self._orders.send(task.line())

    def fileno(self) -> int:
        """What is waited for: the worker's answers."""
        return self._answers.fileno()

    @property
    def silent(self) -> bool:
        """Whether its end of the pipe is closed, so that no answer can come."""
        return self._answers.ended

    def order(self, order: Order) -> None:
        """Have it do something."""
        self._orders.send(order.line())

    def go_on(self, attempt: Attempt) -> None:
        """Have it work for another shard, in whose journal it writes from now on; read `events` first."""
        self.order(Order(do="shard", shard=attempt))
        self.attempt, self._tail = attempt, self._tail_of(attempt)

    @property
    def unsent(self) -> int | None:
        """What is waited for where it could not take all it was told."""
        return None if self.process.stdin is None or self.process.stdin.closed else self._orders.unsent

    def answers(self) -> list[Answer]:
        """What it said since the last call; what it was told and could not take yet goes on its way."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            self._orders.push()
        said = list(filter(None, map(read_answer, self._answers.read())))
        self.refused = next((one.error for one in said if one.what == "refused"), self.refused)
        return [one for one in said if one.what != "refused"]

    def events(self) -> Sequence[JournalEvent]:
        """What its journal says since the last call."""
        return self._tail.read()

    def dismiss(self) -> None:
        """There is nothing more to do: it ends by itself."""
        assert self.process.stdin is not None  # noqa: S101  # PIPE was asked for
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def stop(self) -> None:
        """Have it end in order, now: what runs is given up, and it says so in its journal."""
        assert self.process.stdin is not None  # noqa: S101  # PIPE was asked for
        if not self.process.stdin.closed:
            self.order(Order(do="stop"))
        self.dismiss()
        self.process.terminate()

    def end(self) -> None:
        """End it now, with whatever was started on its behalf, and wait until it is gone, within reason."""
        kill_group(self.process.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=KILL_S)
        self.abandon()

    def abandon(self) -> None:
        """End what was started on its behalf, and let go of it, whether it is gone or not."""
        end_orphans(self._mark, spare={self.process.pid})
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _tail_of(self, attempt: Attempt) -> JournalTail:
        return JournalTail(functools.partial(self._read, attempt.journal))
