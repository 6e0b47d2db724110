"""A worker: one prepared parent on one card that runs what its supervisor orders, a forked child a file.

Started as `python -m ci.runner.worker` with its task as the first line on standard input, orders after it.
What a test does to its process (crash, hang, exit) costs that test: the rest goes on in a new child.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ci.core.machine import boot_id, host_name
from ci.core.parent_death import adopt_orphans, die_with_parent
from ci.record import events
from ci.record.journal import EXIT_UNWRITABLE, UNWRITABLE, JournalWriter
from ci.runner import afresh, crash, prepare
from ci.runner.environment_info import ran_in_here
from ci.runner.hand import Hand
from ci.runner.messages import REFUSED, Answer, Lines, Order, read_order, send
from ci.runner.orphans import VARIABLE, end_orphans, end_strays
from ci.runner.preflight import Finding, check, until_free
from ci.runner.watchdog import NEVER_ENDS, Limits, Patience, Watch, gone

POLL_S = 0.02
IDLE_POLL_S = 0.2
MAX_LOG_BYTES = 64 << 20
# The kernel tells of a parent's death as its first thread ends; the last one closes its pipes.
PARENT_GOES_S = 2.0
ALL_IN_VAIN = "the process that was to run it ended its session without a word of it"


def main() -> None:
    """Run what is ordered."""
    inherited = afresh.open_descriptors()
    answers = _own_output()
    task = afresh.told_again(sys.argv[1:]) or json.loads(_first(sys.stdin.fileno()))
    die_with_parent(int(task["parent"]), signal.SIGTERM)
    adopt_orphans()
    prepare.single_thread(os.environ)
    try:
        worker = Worker(task, Lines(sys.stdin.fileno()), answers)
        if task["method"] == "fork":
            prepare.import_torch(task["device"], machinery=task["machinery"])
            if task["may_change"] and (why := afresh.device_open(task["device"])):
                os.dup2(answers, 1)
                afresh.begin_again("ci.runner.worker", task, why=why, kept=inherited)
        signal.signal(signal.SIGTERM, worker.stop)
        worker.run()
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        send(answers, Answer(what=REFUSED, error=error.errno).line())
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


class Worker:
    """Does what it is ordered to, one order after another."""

    def __init__(self, task: Mapping[str, Any], orders: Lines, answers: int) -> None:
        self._task = task
        self._orders, self._answers = orders, answers
        self._limits = Limits(
            test_s=float(task["test_timeout_s"]),
            setup_s=float(task["setup_timeout_s"]),
            grace_s=float(task["grace_s"]),
        )
        self._stop = threading.Event()
        # What may be asked for of a file, where that is known to be little.
        self._wanted: dict[str, tuple[str, ...]] = {}
        # Whether the child writes to a journal that a test has deleted.
        self._astray = False
        # Files whose forked process could not set them up.
        self._unforkable: set[str] = set()
        # Whether the card failed in this order: what is left of it is for others.
        self._sick = False
        self._hand: Hand | None = None
        if task.get("again"):
            self._go_on(task["shard"])
        else:
            self._begin_shard(task["shard"])

    def _go_on(self, shard: Mapping[str, Any]) -> None:
        self._log = Path(shard["log"])
        self._journal = JournalWriter(Path(shard["journal"]), time.time)

    def _begin_shard(self, shard: Mapping[str, Any]) -> None:
        self._go_on(shard)
        self._journal.write(
            events.ShardStart(
                shard=shard["shard"],
                attempt=shard["attempt"],
                card=self._task["card"],
                host=host_name(),
                boot=boot_id(),
                pid=os.getpid(),
                planned=shard["planned"],
                fingerprint=self._task["fingerprint"],
                run=self._task["run"],
                seed=self._task["seed"],
                threads=self._task["threads"],
                **ran_in_here(os.environ, self._task["device"]),
            )
        )
        # Else a power cut in its first second might leave an empty journal, of which nobody knows the start.
        self._journal.sync(now=True)

    @property
    def _stopped(self) -> bool:
        return self._stop.is_set()

    def stop(self, *_: object) -> None:
        """End in order where the supervisor has let go of this worker; else as any process does by SIGTERM.

        It may come from a test, or from whoever shuts a host down: that costs what runs, as the loss of a
        worker does, and the supervisor has the rest run elsewhere.
        """
        if self._orders.closed_within(PARENT_GOES_S):
            self._stop.set()
        else:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)

    def run(self) -> None:
        """Do every order, then say so."""
        self._tell("ready")
        while not self._stopped and not self._orders.ended:
            self._journal.sync()
            for line in self._orders.read(IDLE_POLL_S):
                if not self._stopped:
                    self._obey(read_order(line))
                    self._tell("done")
        self._dismiss()
        self._end_shard("interrupted" if self._stopped else "done")

    def _end_shard(self, status: str) -> None:
        self._journal.write(events.ShardEnd(status=status))
        self._journal.sync(now=True)

    def _tell(self, what: str) -> None:
        held = None if self._hand is None else self._hand.file
        send(self._answers, Answer(what=what, held=held).line())

    def _obey(self, order: Order) -> None:
        self._sick = False
        match order.do:
            case "run":
                self._run(order)
            case "hold":
                self._hold(order)
            case "shard":
                self._dismiss()
                self._end_shard("done")
                self._journal.close()
                self._begin_shard(order.shard)
            case "check":
                self._dismiss()
                self._check("order")
            case "stop":
                self._stop.set()

    def _run(self, order: Order) -> None:
        ids = list(order.ids)
        self._journal.write(
            events.Piece(file=order.file, tests=len(ids), why=order.why, of=order.of, attempt=order.attempt)
        )
        while ids and not self._stopped and not self._sick:
            hand = self._take(order)
            hand.watch.begin(self._limits_of(order))
            hand.order(ids, order.expectations, order.attempt, order.chains)
            code = self._wait(hand)
            if code is not None:
                ids = self._left(order.file, ids, hand, code)
                continue
            if hand.watch.hardware:
                self._sick = True
                self._forget()
                return
            if ids := hand.watch.left(ids):
                self._journal.write(events.NotRun(ids=ids, message=ALL_IN_VAIN))
            ids = []
        if order.fresh:
            self._dismiss()

    def _hold(self, order: Order) -> None:
        self._wanted[order.file] = order.wanted
        hand = self._take(order)
        if (code := self._wait(hand)) is None:
            return
        self._left(order.file, (), hand, code)
        if hand.forked and order.file in self._unforkable and not self._sick:
            self._hold(order)

    def _take(self, order: Order) -> Hand:
        """The child that has the file set up, or a new one."""
        if self._hand is not None and (order.fresh or self._astray or self._hand.file != order.file):
            self._dismiss()
        if self._hand is not None and self._hand.child.poll() is not None:
            self._forget()
        if self._hand is None:
            self._hand = self._start(order)
        return self._hand

    def _start(self, order: Order) -> Hand:
        spec = {
            "tests": self._task["tests"],
            "device": self._task["device"],
            "machinery": self._task["machinery"],
            "threads": self._task["threads"],
            "seed": self._task["seed"],
            "as_try": self._task["as_try"],
            "journal": str(self._journal.path),
            "wanted": (order.ids if order.fresh else self._wanted.get(order.file)) or None,
            "log": str(self._log),
        }
        self._journal.write(events.GroupStart(file=order.file, tests=len(order.ids)))
        watch = Watch(self._journal, self._limits, time.monotonic)
        watch.log_start = self._log.stat().st_size if self._log.exists() else 0
        method = "spawn" if order.spawn or order.file in self._unforkable else self._task["method"]
        self._astray = False
        ours = (self._answers, self._journal.fileno())
        return Hand(order.file, spec, log=self._log, method=method, watch=watch, keep_back=ours)

    def _limits_of(self, order: Order) -> Limits:
        """Limits from history where the order has them; the settings' are the ceiling."""
        ceiling = self._limits.test_s
        return replace(
            self._limits,
            test_s=ceiling if order.test_s is None else min(order.test_s, ceiling),
            by_id={name: min(seconds, ceiling) for name, seconds in order.limits.items()},
        )

    def _left(self, file: str, ids: Sequence[str], hand: Hand, code: int) -> list[str]:
        """Account for a child that ended; the ids that another child is to run."""
        watch = hand.watch
        left = watch.left(ids)
        self._forget()
        if hand.unwritten:
            return crash.unwritten(self._journal, watch, left)
        if self._stopped or (not left and watch.ready):
            return []
        if watch.running is not None and not watch.bystander:
            if crash.crashed(self._journal, watch, code, lambda: self._check("crash")):
                self._sick = True
            left.remove(watch.running)
            return left
        if watch.done and watch.file_error is None:
            return left
        return self._not_had(file, left, hand, code)

    def _not_had(self, file: str, left: list[str], hand: Hand, code: int) -> list[str]:
        """Account for a child that had run nothing when it ended; the ids to be tried once more."""
        watch = hand.watch
        if watch.hardware or crash.card_failed(self._journal, file, watch):
            self._sick = True
            return []
        # No test was running and none had run: the file itself could not be had, or not in a forked process.
        if watch.file_error is None and hand.forked and file not in self._unforkable:
            self._unforkable.add(file)
            crash.not_forked(self._journal, file, watch, code)
            return left
        if watch.file_error is None:
            crash.not_set_up(self._journal, file, watch, code)
        if left:
            self._journal.write(events.NotRun(ids=left, message=watch.file_error or ""))
        return []

    def _dismiss(self) -> None:
        """Let the child end, if there is one; what it does after its last test has the time of a set-up."""
        if self._hand is None:
            return
        hand = self._hand
        hand.dismiss()
        began = time.monotonic()
        limit = self._limits.setup_s
        while hand.child.poll() is None and not self._stopped and time.monotonic() - began < limit:
            hand.listen(POLL_S)
            stem_flood(hand.child.log)
        if hand.child.poll() is None and not self._stopped:
            hand.child.dump_stacks()
            time.sleep(self._limits.dump_s)
        self._journal.write(events.GroupEnd(file=hand.file, seconds=round(time.monotonic() - began, 3)))
        self._forget()

    def _forget(self) -> None:
        """End what is left of the child, and of what it started."""
        hand, self._hand = self._hand, None
        if hand is None:
            return
        hand.child.kill()
        if not gone(hand.child):
            self._journal.write(
                events.CardFault(message=f"{NEVER_ENDS}: the one that ran {hand.file}", ras="")
            )
            self._sick = True
        hand.close()
        end_strays(os.environ.get(VARIABLE, ""), spare={os.getpid()})
        end_orphans(spare={hand.child.pid})
        self._journal.restore()

    def _wait(self, hand: Hand) -> int | None:
        """Wait until the child has done what it was told, or has ended; its exit code then."""
        child, watch = hand.child, hand.watch
        patience = Patience(child, watch, time.monotonic)
        while (code := child.poll()) is None:
            hand.listen(POLL_S)
            watch.update()
            self._journal.sync()
            if hand.answered:
                self._astray = self._journal.restore() or self._astray
                return None
            if self._stopped:
                patience.kill()
            else:
                patience.look()
            if patience.over:
                code = -signal.SIGKILL
                break
            stem_flood(child.log)
        hand.listen(0)
        child.kill()  # what the child started and left behind
        watch.update()
        patience.ended(code)
        return code

    def _check(self, why: str) -> Finding:
        """See whether the card works; where it is not to be checked it counts as well."""
        spec = {"device": self._task["device"], "threads": self._task["threads"]}
        limit = float(self._task["preflight_timeout_s"])
        if not limit or self._stopped:
            return Finding(ok=True, seconds=0)

        def once() -> Finding:
            method = self._task["method"]
            return check(spec, log=self._log, method=method, timeout_s=limit, stopped=self._stop.is_set)

        found = until_free(once, grace_s=self._limits.grace_s, clock=time.monotonic, pause=self._stop.wait)
        if self._stop.is_set():  # it was ended early, which is not the card's fault
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
