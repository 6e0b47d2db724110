"""The supervisor of one host: a worker process a card, shards handed to free cards, lost workers replaced.

It imports no torch. What it knows of a shard it reads from the shard's journal, as everybody else does.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ci.errors import CommandError, UsageError
from ci.interrupts import noted
from ci.process import kill_group, signal_name
from ci.runner.cards import Card, together
from ci.runner.journal import JournalWriter, journal_path, next_attempt
from ci.runner.strays import VARIABLE, end_strays
from ci.runner.watch import JournalTail, read_file
from test_selection.plan import Group, Plan, Shard
from test_selection.selection import Expectation

POLL_S = 0.05
# Beyond a worker's own time-outs: importing torch on a busy machine, writing the account of a hang.
SILENCE_MARGIN_S = 120.0
Listener = Callable[[int, Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How to run a plan on this host; times in seconds.

    Attributes:
        run: the readable run id.
        run_dir: the run folder; journals and logs go below it.
        tests: the folder test files are named relative to.
        device: the device under test.
        environ: the whole environment of the workers.
        threads: CPU threads a worker may use.
        method: `fork` or `spawn`.
        test_timeout_s: after which a test counts as hung.
        setup_timeout_s: after which setting a file up counts as hung.
        grace_s: time a process gets to end by itself.
        worker_restarts: how often a shard's lost worker is replaced.
    """

    run: str
    run_dir: Path
    tests: Path
    device: str
    environ: Mapping[str, str]
    threads: int
    method: str
    test_timeout_s: float
    setup_timeout_s: float
    grace_s: float
    worker_restarts: int

    @property
    def silence_s(self) -> float:
        """How long a worker that is well may write nothing to its journal."""
        return max(self.test_timeout_s, self.setup_timeout_s) + self.grace_s + SILENCE_MARGIN_S


@dataclass(slots=True, kw_only=True)
class _Running:
    """A worker at work on one attempt at a shard."""

    shard: Shard
    attempt: int
    cards: list[Card]
    process: subprocess.Popen[bytes]
    mark: str
    heard: float
    tail: JournalTail
    restarts: int
    groups: list[Group]
    ended: set[str] = field(default_factory=set)
    current: str | None = None
    finished: bool = False

    @property
    def card(self) -> Card:
        """The card, or all of them as one."""
        return together(self.cards)


def run_plan(
    plan: Plan,
    shards: Sequence[Shard],
    *,
    cards: Sequence[Card],
    expectations: Mapping[str, Expectation],
    options: RunOptions,
    listen: Listener,
) -> bool:
    """Run shards of a plan and return whether the run was interrupted (Ctrl-C or SIGTERM).

    Args:
        plan: the whole plan, for its fingerprint.
        shards: those to run here.
        cards: one worker each; a card serves one process at a time.
        expectations: declared outcomes by id.
        options: how.
        listen: called with the shard's index and each event of its journal.
    """
    supervisor = _Supervisor(plan.fingerprint, cards, expectations, options, listen)
    return supervisor.run(shards)


class _Supervisor:
    def __init__(
        self,
        fingerprint: str,
        cards: Sequence[Card],
        expectations: Mapping[str, Expectation],
        options: RunOptions,
        listen: Listener,
    ) -> None:
        self._fingerprint = fingerprint
        self._free = list(cards)[::-1]
        self._expectations = expectations
        self._options = options
        self._listen = listen
        self._running: list[_Running] = []

    def run(self, shards: Sequence[Shard]) -> bool:
        waiting = [shard for shard in shards if shard.groups]
        for shard in waiting:
            if shard.cards > len(self._free):
                raise UsageError(
                    f"shard {shard.index} needs {shard.cards} cards at once, and here are {len(self._free)}",
                    remedy="give the run more cards (--cards), or plan for as many as there are",
                )
        try:
            with noted() as interrupts:
                while (waiting or self._running) and not interrupts:
                    # The longest shard comes first; one that must wait for cards lets nobody pass, or
                    # narrow ones would keep it waiting to the end.
                    while waiting and waiting[0].cards <= len(self._free):
                        shard = waiting.pop(0)
                        self._start(shard, list(shard.groups), restarts=0)
                    self._step()
                    time.sleep(POLL_S)
                if interrupts:
                    self._stop()
                return bool(interrupts)
        finally:
            for running in self._running:  # after an error; else there is none
                _end(running)

    def _start(self, shard: Shard, groups: list[Group], *, restarts: int) -> None:
        try:
            self._try_start(shard, groups, restarts)
        except OSError as error:
            raise CommandError(
                f"the worker of shard {shard.index} cannot be started: {error}",
                remedy=f"check the space and the rights of {self._options.run_dir}",
            ) from error

    def _try_start(self, shard: Shard, groups: list[Group], restarts: int) -> None:
        options = self._options
        cards = [self._free.pop() for _ in range(shard.cards)]
        card = together(cards)
        attempt = next_attempt(options.run_dir, shard.index)
        journal = journal_path(options.run_dir, shard.index, attempt)
        journal.parent.mkdir(parents=True, exist_ok=True)
        log = options.run_dir / "logs" / f"{shard.index}-{attempt}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        mark = f"{os.getpid()}:{journal}"
        with log.open("ab") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", "ci.runner.worker"],
                env={**options.environ, **card.environment, VARIABLE: mark},
                stdin=subprocess.PIPE,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
        running = _Running(
            shard=shard,
            attempt=attempt,
            cards=cards,
            process=process,
            mark=mark,
            heard=time.monotonic(),
            tail=JournalTail(functools.partial(read_file, journal)),
            restarts=restarts,
            groups=groups,
        )
        self._running.append(running)
        self._hand_over(running, journal, log)

    def _hand_over(self, running: _Running, journal: Path, log: Path) -> None:
        options = self._options
        ids = {one for group in running.groups for one in group.ids}
        task = {
            "parent": os.getpid(),
            "run": options.run,
            "fingerprint": self._fingerprint,
            "shard": running.shard.index,
            "attempt": running.attempt,
            "card": running.card.name,
            "groups": [
                {"file": group.file, "ids": list(group.ids), "timeout_s": group.timeout_s}
                for group in running.groups
            ],
            "expectations": {name: one.as_json() for name, one in self._expectations.items() if name in ids},
            "tests": str(options.tests),
            "device": options.device,
            "threads": options.threads,
            "method": options.method,
            "journal": str(journal),
            "log": str(log),
            "test_timeout_s": options.test_timeout_s,
            "setup_timeout_s": options.setup_timeout_s,
            "grace_s": options.grace_s,
        }
        assert running.process.stdin is not None  # noqa: S101  # PIPE was asked for
        # A worker that ended before it read its task is noticed as lost.
        with contextlib.suppress(BrokenPipeError), running.process.stdin as stream:
            stream.write(json.dumps(task).encode())

    def _step(self) -> None:
        for running in list(self._running):
            code = running.process.poll()
            self._follow(running)
            if code is None and time.monotonic() - running.heard > self._options.silence_s:
                running.process.kill()  # stuck in a driver, or stopped: its child's time-outs need it
                code = running.process.wait()
            if code is not None:
                self._running.remove(running)
                self._free += running.cards[::-1]
                if not running.finished:
                    self._replace(running, code)

    def _follow(self, running: _Running) -> None:
        for event in running.tail.read():
            running.heard = time.monotonic()
            match event.get("e"):
                case "start":
                    running.current = event["id"]
                case "end" | "crash":
                    running.ended.add(event["id"])
                    running.current = None
                case "not_run":
                    running.ended.update(event["ids"])
                case "shard_end":
                    running.finished = True
                case _:
                    pass
            self._listen(running.shard.index, event)

    def _replace(self, lost: _Running, code: int) -> None:
        """Account for a worker that went without a word, and let another do what is left."""
        _end(lost)
        said = f"died by {signal_name(-code)}" if code < 0 else f"ended with code {code}"
        self._note(lost, "worker_lost", id=lost.current, message=f"the worker on {lost.card.name} {said}")
        if lost.current is not None:
            lost.ended.add(lost.current)
        left = without(lost.groups, lost.ended)
        if left and lost.restarts < self._options.worker_restarts:
            self._start(lost.shard, left, restarts=lost.restarts + 1)
            return
        if left:
            ids = [one for group in left for one in group.ids]
            log = f"logs/{lost.shard.index}-{lost.attempt}.log"
            reason = f"the shard's worker was lost {lost.restarts + 1} times; its log: {log}"
            self._note(lost, "not_run", ids=ids, message=reason)
        self._note(lost, "shard_end", status="done")

    def _stop(self) -> None:
        """Let every worker write its account, then end what is left."""
        for running in self._running:
            running.process.terminate()
        deadline = time.monotonic() + self._options.grace_s
        while self._running:
            running = self._running.pop()
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.process.wait(timeout=max(0.1, deadline - time.monotonic()))
            _end(running)
            self._follow(running)
            if not running.finished:
                self._note(running, "shard_end", status="interrupted")

    def _note(self, running: _Running, event: str, **content: Any) -> None:
        """Write what a worker that is gone can no longer write."""
        path = journal_path(self._options.run_dir, running.shard.index, running.attempt)
        try:
            with contextlib.closing(JournalWriter(path, time.time)) as journal:
                journal.write(event, **content)
        except OSError as error:
            # A full disk, say: what no journal tells of is a hole in the account, and reddens the run.
            self._listen(running.shard.index, {"e": "worker_lost", "id": None, "message": f"{path}: {error}"})
        self._follow(running)


def _end(running: _Running) -> None:
    """End a worker and whatever was started on its behalf."""
    kill_group(running.process.pid)
    running.process.wait()
    end_strays(running.mark)


def without(groups: Sequence[Group], ids: set[str]) -> list[Group]:
    """The groups with `ids` taken out; a group that is left empty goes."""
    left = []
    for group in groups:
        kept = tuple(one for one in group.ids if one not in ids)
        if kept:
            left.append(replace(group, ids=kept))
    return left
