"""A worker: one prepared parent on one card that runs one shard, a forked child a group.

Started as `python -m ci.runner.worker` with its task on standard input. What a test does to its process
(crash, hang, exit) costs that test: the rest of its group goes on in a new child.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ci.runner import prepare
from ci.runner.child import Child, start
from ci.runner.journal import JournalWriter
from ci.runner.plugin import run_group
from ci.runner.strays import VARIABLE, end_strays
from ci.runner.watch import Limits, Watch

POLL_S = 0.02
MAX_LOG_BYTES = 64 << 20


def main() -> None:
    """Run the shard of the task."""
    task = json.load(sys.stdin)
    prepare.die_with_parent(int(task["parent"]), signal.SIGTERM)
    prepare.single_thread(os.environ)
    journal = JournalWriter(Path(task["journal"]), time.time)
    journal.write(
        "shard_start",
        shard=task["shard"],
        attempt=task["attempt"],
        card=task["card"],
        host=os.uname().nodename,
        pid=os.getpid(),
        planned=sum(len(group["ids"]) for group in task["groups"]),
        fingerprint=task["fingerprint"],
        run=task["run"],
    )
    if task["method"] == "fork":
        prepare.import_machinery(task["device"])
    worker = Worker(task, journal)
    signal.signal(signal.SIGTERM, worker.stop)
    worker.run()


class Worker:
    """Runs the groups of a shard one after another."""

    def __init__(self, task: Mapping[str, Any], journal: JournalWriter) -> None:
        self._task = task
        self._journal = journal
        self._limits = Limits(
            test_s=float(task["test_timeout_s"]),
            setup_s=float(task["setup_timeout_s"]),
            grace_s=float(task["grace_s"]),
        )
        self._stop = threading.Event()

    @property
    def _stopped(self) -> bool:
        return self._stop.is_set()

    def stop(self, *_: object) -> None:
        """Asked to end: the running test is given up, the rest is accounted for."""
        self._stop.set()

    def run(self) -> None:
        """Run every group, then say so."""
        for group in self._task["groups"]:
            if not self._stopped:
                self._run_group(group["file"], list(group["ids"]), self._limits_of(group["timeout_s"]))
        self._journal.write("shard_end", status="interrupted" if self._stopped else "done")

    def _limits_of(self, timeout_s: float | None) -> Limits:
        """The plan's own time-out of a group is from its file's history; the settings' is the ceiling."""
        if timeout_s is None:
            return self._limits
        return replace(self._limits, test_s=min(timeout_s, self._limits.test_s))

    def _run_group(self, file: str, ids: list[str], limits: Limits) -> None:
        self._journal.write("group_start", file=file, tests=len(ids))
        while ids and not self._stopped:
            watch = Watch(self._journal, limits, time.monotonic)
            code = self._run_child(file, ids, watch)
            ids = self._left(file, ids, watch, code)

    def _left(self, file: str, ids: Sequence[str], watch: Watch, code: int) -> list[str]:
        """Account for a child that ended; the ids that another child is to run."""
        left = [one for one in ids if one not in watch.done]
        if self._stopped or not left:
            return []
        if watch.running is not None and not watch.bystander:
            self._crash(watch, code)
            left.remove(watch.running)
            return left
        if watch.done and watch.file_error is None:
            return left
        # No test was running and none had run: the file itself could not be had.
        if watch.file_error is None:
            self._file_error(file, watch, code)
        self._journal.write("not_run", ids=left, message=watch.file_error)
        return []

    def _run_child(self, file: str, ids: Sequence[str], watch: Watch) -> int:
        """Run one child to its end and return its exit code, negative for a signal."""
        wanted = set(ids)
        expectations = {k: v for k, v in self._task["expectations"].items() if k in wanted}
        spec = {
            "tests": self._task["tests"],
            "device": self._task["device"],
            "threads": self._task["threads"],
            "journal": self._task["journal"],
            "file": file,
            "ids": list(ids),
            "expectations": expectations,
        }
        log = Path(self._task["log"])
        watch.log_start = log.stat().st_size if log.exists() else 0
        child = start(run_group, spec, log=log, method=self._task["method"])
        watch.child = child
        code = _wait(child, watch, lambda: self._stopped)
        end_strays(os.environ.get(VARIABLE, ""), spare={os.getpid()})
        self._journal.restore()
        return code

    def _crash(self, watch: Watch, code: int) -> None:
        cause, message = watch.why(code)
        self._journal.write(
            "crash",
            id=watch.running,
            cause=cause,
            message=message,
            detail=watch.last_lines(),
            seconds=round(watch.running_s, 3),
        )

    def _file_error(self, file: str, watch: Watch, code: int) -> None:
        _, message = watch.why(code)
        watch.file_error = f"setting up {file}: {message}"
        self._journal.write("file_error", file=file, message=watch.file_error, detail=watch.last_lines())


def _wait(child: Child, watch: Watch, stopped: Callable[[], bool]) -> int:
    dumped_at: float | None = None
    while (code := child.poll()) is None:
        now = time.monotonic()
        watch.update()
        if stopped():
            child.kill()
        elif not watch.overdue():
            dumped_at = None  # it ended after all, and what runs now has its own time
        elif dumped_at is None:
            child.dump_stacks()
            dumped_at = now
        elif now - dumped_at > watch.limits.dump_s:
            watch.give_up()
            child.kill()
        stem_flood(child.log)
        time.sleep(POLL_S)
    child.kill()  # what the child started and left behind
    watch.update()
    return code


def stem_flood(log: Path) -> None:
    """Start the log of a test that prints without end anew, before it fills the disk."""
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > MAX_LOG_BYTES:
            os.truncate(log, 0)


if __name__ == "__main__":
    main()
