"""A worker: one prepared parent on one card that runs what its supervisor orders, a forked child a file.

Started as `python -m ci.runner.worker` with its task as the first line on standard input, orders after it.
What a test does to its process (crash, hang, exit) costs that test: the rest goes on in a new child.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from ci.core.operating_system import boot_id, host_name
from ci.core.other_processes import adopt_orphans, die_with_parent
from ci.record import events
from ci.record.journal import EXIT_UNWRITABLE, UNWRITABLE, JournalWriter
from ci.record.run_state import CardFault
from ci.runner import prepared_parent, reexec
from ci.runner.channel import Answer, Attempt, Lines, Order, Task, send
from ci.runner.child import NEVER_ENDS, ChildProcess, Pipes, gone, start
from ci.runner.environment_info import ran_in_here
from ci.runner.orphans import VARIABLE, end_orphans
from ci.runner.plugin import run_group
from ci.runner.preflight import Finding, check, until_free
from ci.runner.watchdog import ChildMonitor, Limits, Watchdog

POLL_S = 0.02
IDLE_POLL_S = 0.2
MAX_LOG_BYTES = 64 << 20
# The kernel tells of a parent's death as its first thread ends; the last one closes its pipes.
PARENT_GOES_S = 2.0
TERMINATED = f"died by {signal.SIGTERM.name}"
UNTOLD = "what became of it could not be written: there was no space left, or the disk failed"
ALL_IN_VAIN = "the process that was to run it ended its session without a word of it"


def main() -> None:
    """Run what is ordered."""
    inherited = reexec.open_descriptors()
    answers = _own_output()
    told = reexec.told_again(sys.argv[1:])
    task = Task.from_content(told) if told is not None else Task.read(_first(sys.stdin.fileno()))
    die_with_parent(task.parent, signal.SIGTERM)
    adopt_orphans()
    prepared_parent.single_thread(os.environ)
    try:
        worker = Worker(task, Lines(sys.stdin.fileno()), answers)
        if task.method == "fork":
            prepared_parent.import_torch(task.device, machinery=task.machinery)
            if task.may_change and (why := reexec.device_open(task.device)):
                os.dup2(answers, 1)
                reexec.begin_again("ci.runner.worker", task.content(), why=why, kept=inherited)
        signal.signal(signal.SIGTERM, worker.stop)
        worker.run()
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        send(answers, Answer(what="refused", error=error.errno).line())
        os._exit(EXIT_UNWRITABLE)  # its child ends with it


def _own_output() -> int:
    """What is printed while things are imported goes to the log, and only answers to the supervisor."""
    answers = os.dup(1)
    os.dup2(2, 1)
    return answers


def _first(descriptor: int) -> bytes:
    """The first line, and not a byte more: what follows is for whoever has the pipe then."""
    line = bytearray()
    while (byte := os.read(descriptor, 1)) and byte != b"\n":
        line += byte
    if not line:
        raise SystemExit("no task came on standard input")
    return bytes(line)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A child, the file it has set up or does so, and what is known of it."""

    file: str
    child: ChildProcess
    pipes: Pipes
    monitor: ChildMonitor


class Worker:
    """Does what it is ordered to, one order after another."""

    def __init__(self, task: Task, orders: Lines, answers: int) -> None:
        self._task = task
        self._orders, self._answers = orders, answers
        self._limits = Limits(
            test_s=task.test_timeout_s,
            setup_s=task.setup_timeout_s,
            grace_s=task.grace_s,
        )
        # A plain flag: what locks cannot be set by a signal's handler that comes in the middle of another.
        self._stopped = False
        # What may be asked for of a file, where that is known to be little.
        self._wanted: dict[str, tuple[str, ...]] = {}
        # Whether the child writes to a journal that a test has deleted.
        self._journal_deleted = False
        # Files whose forked process could not set them up.
        self._unforkable: set[str] = set()
        # Whether the card failed in this order: what is left of it is for others.
        self._sick = False
        self._held: _Held | None = None
        if task.again:
            self._go_on(task.attempt)
        else:
            self._begin_shard(task.attempt)

    def _go_on(self, shard: Attempt) -> None:
        self._log = shard.log
        self._journal = JournalWriter(shard.journal, time.time)

    def _begin_shard(self, shard: Attempt) -> None:
        self._go_on(shard)
        self._journal.write(
            events.ShardStart(
                shard=shard.shard,
                attempt=shard.number,
                card=self._task.card,
                host=host_name(),
                boot=boot_id(),
                pid=os.getpid(),
                planned=shard.planned,
                fingerprint=self._task.fingerprint,
                run=self._task.run,
                seed=self._task.seed,
                threads=self._task.threads,
                **ran_in_here(os.environ, self._task.device),
            )
        )
        # Else a power cut in its first second might leave an empty journal, of which nobody knows the start.
        self._journal.sync(now=True)

    def stop(self, *_: object) -> None:
        """End in order where the supervisor has let go of this worker; else as any process does by SIGTERM.

        It may come from a test, or from whoever shuts a host down: that costs what runs, as the loss of a
        worker does, and the supervisor has the rest run elsewhere.
        """
        if not self._run_is_ended():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)

    def _run_is_ended(self) -> bool:
        """Whether the supervisor lets go of this worker, now or in a moment."""
        self._stopped = self._stopped or self._orders.closed_within(PARENT_GOES_S)
        return self._stopped

    def run(self) -> None:
        """Do every order, then say so."""
        self._tell("ready")
        while not self._stopped and not self._orders.ended:
            self._journal.sync()
            for line in self._orders.read(IDLE_POLL_S):
                if not self._stopped:
                    self._obey(Order.read(line))
                    self._tell("done")
        self._dismiss()
        self._end_shard("interrupted" if self._stopped else "done")

    def _end_shard(self, status: str) -> None:
        self._journal.write(events.ShardEnd(status=status))
        self._journal.sync(now=True)

    def _tell(self, what: Literal["ready", "done"]) -> None:
        held = None if self._held is None else self._held.file
        send(self._answers, Answer(what=what, held=held).line())

    def _obey(self, order: Order) -> None:
        self._sick = False
        match order.do:
            case "run":
                self._run(order)
            case "hold":
                self._hold(order)
            case "shard" if order.shard is not None:
                fault = self._dismiss()
                self._end_shard("done")
                self._journal.close()
                self._begin_shard(order.shard)
                if fault is not None:  # the journal before is not listened to any more
                    self._journal.write(events.CardFault(message=fault.message, ras=fault.ras))
            case "check":
                self._dismiss()
                self._check("order")
            case "stop":
                self._stopped = True

    def _run(self, order: Order) -> None:
        ids = list(order.ids)
        self._journal.write(
            events.Piece(file=order.file, tests=len(ids), why=order.why, of=order.of, attempt=order.attempt)
        )
        while ids and not self._stopped and not self._sick:
            held = self._take(order)
            held.monitor.begin(self._limits_of(order))
            held.pipes.order(replace(order, ids=tuple(ids)))
            code = self._wait(held)
            if code is not None:
                ids = self._left(order.file, ids, held, code)
                continue
            if held.monitor.fault is not None:
                self._sick = True
                self._forget()
                return
            if ids := held.monitor.left(ids):
                self._journal.write(events.NotRun(ids=ids, message=ALL_IN_VAIN))
            ids = []
        if order.fresh:
            self._dismiss()

    def _hold(self, order: Order) -> None:
        self._wanted[order.file] = order.wanted
        held = self._take(order)
        if (code := self._wait(held)) is None:
            return
        self._left(order.file, (), held, code)
        if held.child.forked and order.file in self._unforkable and not self._sick:
            self._hold(order)

    def _take(self, order: Order) -> _Held:
        """The child that has the file set up, or a new one."""
        if self._held is not None and (order.fresh or self._journal_deleted or self._held.file != order.file):
            self._dismiss()
        if self._held is not None and self._held.child.poll() is not None:
            self._forget()
        if self._held is None:
            self._held = self._start(order)
        return self._held

    def _start(self, order: Order) -> _Held:
        self._journal.write(events.GroupStart(file=order.file, tests=len(order.ids)))
        monitor = ChildMonitor(self._journal, self._limits, time.monotonic)
        monitor.log_start = self._log.stat().st_size if self._log.exists() else 0
        pipes = Pipes()
        monitor.child = start(
            run_group,
            {
                **self._task.content(),
                "file": order.file,
                "journal": str(self._journal.path),
                "log": str(self._log),
                "wanted": (order.ids if order.fresh else self._wanted.get(order.file)) or None,
            },
            log=self._log,
            method="spawn" if order.spawn or order.file in self._unforkable else self._task.method,
            pipes=pipes,
            keep_back=(self._answers, self._journal.fileno()),
        )
        self._journal_deleted = False
        return _Held(file=order.file, child=monitor.child, pipes=pipes, monitor=monitor)

    def _limits_of(self, order: Order) -> Limits:
        """Limits from history where the order has them; the settings' are the ceiling."""
        ceiling = self._limits.test_s
        return replace(
            self._limits,
            test_s=ceiling if order.test_s is None else min(order.test_s, ceiling),
            by_id={name: min(seconds, ceiling) for name, seconds in order.limits.items()},
        )

    def _left(self, file: str, ids: Sequence[str], held: _Held, code: int) -> list[str]:
        """Account for a child that ended; the ids that another child is to run."""
        monitor = held.monitor
        left = monitor.left(ids)
        self._forget()
        if held.pipes.refused:
            # Where this can write, space is back, and one test was lost.
            self._journal.write(events.WorkerLost(id=monitor.running, message=UNTOLD))
            return [name for name in left if name != monitor.running]
        if self._stopped or (not left and monitor.ready):
            return []
        if monitor.running is not None and not monitor.bystander:
            if monitor.crashed(code, lambda: self._check("crash")):
                self._sick = True
            left.remove(monitor.running)
            return left
        if monitor.done and monitor.file_error is None:
            return left
        return self._not_had(file, left, held, code)

    def _not_had(self, file: str, left: list[str], held: _Held, code: int) -> list[str]:
        """Account for a child that had run nothing when it ended; the ids to be tried once more."""
        monitor = held.monitor
        if monitor.fault is not None or monitor.card_failed(file):
            self._sick = True
            return []
        # No test was running and none had run: the file itself could not be had, or not in a forked process.
        if monitor.file_error is None and held.child.forked and file not in self._unforkable:
            self._unforkable.add(file)
            monitor.not_forked(file, code)
            return left
        reason = monitor.not_set_up(file, code)
        if left:
            self._journal.write(events.NotRun(ids=left, message=reason))
        return []

    def _dismiss(self) -> CardFault | None:
        """Let the child end, if there is one; what it does after its last test has the time of a set-up.

        Returns:
            What the card did wrong meanwhile.
        """
        if self._held is None:
            return None
        held = self._held
        held.monitor.update()
        known = held.monitor.fault
        held.pipes.dismiss()
        began = time.monotonic()
        limit = self._limits.setup_s
        while held.child.poll() is None and not self._stopped and time.monotonic() - began < limit:
            held.pipes.listen(POLL_S)
            stem_flood(held.child.log)
        if held.child.poll() is None and not self._stopped:
            held.child.dump_stacks()
            time.sleep(self._limits.dump_s)
        self._journal.write(events.GroupEnd(file=held.file, seconds=round(time.monotonic() - began, 3)))
        self._forget()
        held.monitor.update()
        return None if held.monitor.fault is known else held.monitor.fault

    def _forget(self) -> None:
        """End what is left of the child, and of what it started."""
        held, self._held = self._held, None
        if held is None:
            return
        held.child.kill()
        if not gone(held.child):
            message = f"{NEVER_ENDS}: the one that ran {held.file}"
            self._journal.write(events.CardFault(message=message, ras=""))
            self._sick = True
        held.pipes.close()
        end_orphans(os.environ.get(VARIABLE, ""), spare={os.getpid(), held.child.pid}, adopted=True)
        self._journal.restore()

    def _wait(self, held: _Held) -> int | None:
        """Wait until the child has done what it was told, or has ended; its exit code then."""
        child, monitor = held.child, held.monitor
        watchdog = Watchdog(child, monitor, time.monotonic)
        while (code := child.poll()) is None:
            held.pipes.listen(POLL_S)
            monitor.update()
            self._journal.sync()
            if held.pipes.answered:
                self._journal_deleted = self._journal.restore() or self._journal_deleted
                return None
            if self._stopped:
                watchdog.kill()
            else:
                watchdog.look()
            if watchdog.over:
                code = -signal.SIGKILL
                break
            stem_flood(child.log)
        held.pipes.listen(0)
        child.kill()  # what the child started and left behind
        monitor.update()
        monitor.stop()
        if code == -signal.SIGTERM:
            self._run_is_ended()  # whoever ends all processes of a run may come to the child first
        watchdog.ended(code)
        return code

    def _check(self, why: str) -> Finding:
        """See whether the card works; where it is not to be checked it counts as well."""
        spec = {"device": self._task.device, "threads": self._task.threads}
        limit = self._task.preflight_timeout_s
        if not limit or self._stopped:
            return Finding(ok=True, seconds=0)

        def stopped() -> bool:
            return self._stopped

        def once() -> Finding:
            method = self._task.method
            return check(spec, log=self._log, method=method, timeout_s=limit, stopped=stopped)

        found = until_free(once, grace_s=self._limits.grace_s, clock=time.monotonic, pause=time.sleep)
        # One that was ended early is not the card's fault.
        if stopped() or (found.message == TERMINATED and self._run_is_ended()):
            return Finding(ok=True, seconds=found.seconds)
        self._journal.write(events.CardCheck(why=why, **asdict(found)))
        return found


def stem_flood(log: Path) -> None:
    """Start the log of a test that prints without end anew, before it fills the disk."""
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > MAX_LOG_BYTES:
            os.truncate(log, 0)


if __name__ == "__main__":
    main()
