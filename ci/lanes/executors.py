"""Who carries lanes out: processes of this machine that outlive the worker, or a cluster far away.

What is far is connected to when it is first asked.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ci.config.load import Settings
from ci.core.errors import CommandError, SettingsError, UsageError
from ci.core.process import run_command, signal_name
from ci.hud.runs import read_run, record_run
from ci.lanes.order import Executor, Order, Seen, Standing
from ci.lanes.remote import Far, Remote
from ci.lanes.wrapper import ASKED, BEGIN, BEGIN_KIND, BY_LIMIT, END, END_KIND, MARK, held, mark_of
from ci.report.store import open_kept
from ci.runner.orphans import end_orphans
from test_selection.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_TEST_FAILED, EXIT_USAGE
from test_selection.files import read_json

START_S = 60.0
_POLL_S = 0.05
KIND = "openshift"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What a lane runs here.

    Attributes:
        words: program and arguments.
        environ: the whole environment, the lane's secrets with it.
        cwd: working folder.
        limit_s: seconds it may take.
    """

    words: Sequence[str]
    environ: Mapping[str, str]
    cwd: Path
    limit_s: float


class LocalExecutor:
    """Runs orders here; see Executor.

    Args:
        launch: what an order runs.
        ending_s: seconds a run has to end in its own way.
    """

    def __init__(self, launch: Callable[[Order], Launch], *, ending_s: float) -> None:
        self._launch, self._ending_s = launch, ending_s

    def find(self, order: Order) -> str | None:
        """See Executor."""
        if not (order.folder / BEGIN).exists():
            return None
        return str(read_json(order.folder / BEGIN, BEGIN_KIND)["pid"])

    def start(self, order: Order) -> str:
        """See Executor; of two that start the same order, one begins it."""
        launch = self._launch(order)
        limits = [str(launch.limit_s), str(self._ending_s)]
        words = [str(order.folder), *limits, str(launch.cwd), *launch.words]
        try:
            run_command(
                [sys.executable, "-m", "ci.lanes.wrapper", *words], timeout_s=START_S, env=launch.environ
            )
        except CommandError:
            # It may be late; then it is not to run beside the next attempt.
            with contextlib.suppress(OSError):
                self.cancel(order, "")
            raise
        # Another one of the same order may just be at it.
        end = time.monotonic() + START_S
        while (reference := self.find(order)) is None:
            if time.monotonic() > end:
                raise CommandError(
                    "did not begin", where=order.folder, remedy="look at what is in the folder"
                )
            time.sleep(_POLL_S)
        return reference

    def look(self, order: Order, reference: str) -> Seen:  # noqa: ARG002  # the folder says more
        """See Executor."""
        if not (order.folder / END).exists():
            if held(order.folder):
                return Seen(standing=Standing.RUNNING)
            if not (order.folder / END).exists():
                # What ran it is gone without a word; what it ran must not go on beside the next attempt.
                end_orphans(mark_of(order.folder), variable=MARK)
                return Seen(standing=Standing.GONE, said="its processes are gone, and left no exit code")
        end = read_json(order.folder / END, END_KIND)
        return _ended(end["exit_code"], told=end["told"], said=end["said"])

    def cancel(self, order: Order, reference: str) -> None:  # noqa: ARG002  # nobody is signalled by a number
        """See Executor."""
        # A name and nothing in it: a full disk has room for that.
        (order.folder / ASKED).touch()

    def fetch(self, order: Order, reference: str) -> None:
        """Nothing: what it left is where it belongs."""


def _ended(code: int | None, *, told: str, said: str) -> Seen:
    """An end as a standing, by the design's table; pure."""
    if code is not None and code < 0:
        said = "; ".join(filter(None, (said, f"ended by {signal_name(-code)}")))
    if told == BY_LIMIT:
        return Seen(standing=Standing.TIMED_OUT, exit_code=EXIT_INCOMPLETE, said=said)
    if told:
        # Whatever code it ended with is of its being told to: nox ends with 0 where what it ran does.
        return Seen(standing=Standing.INCOMPLETE, exit_code=code, said=said or "was told to end")
    if code == EXIT_OK:
        return Seen(standing=Standing.PASSED, exit_code=code)
    if code == EXIT_TEST_FAILED:
        return Seen(standing=Standing.FAILED, exit_code=code)
    if code == EXIT_USAGE:
        # Nobody mends settings by trying again.
        return Seen(standing=Standing.FAILED, exit_code=code, said="usage, settings or credentials")
    return Seen(standing=Standing.INCOMPLETE, exit_code=code, said=said)


@dataclass(frozen=True, slots=True, kw_only=True)
class ByLane:
    """The executors of all lanes of a kind, as one.

    Attributes:
        of: the executor of a lane, which is made when it is first asked for.
    """

    of: Callable[[str], Executor]

    def find(self, order: Order) -> str | None:
        """See `Executor`."""
        return self.of(order.lane).find(order)

    def start(self, order: Order) -> str:
        """See `Executor`."""
        return self.of(order.lane).start(order)

    def look(self, order: Order, reference: str) -> Seen:
        """See `Executor`."""
        return self.of(order.lane).look(order, reference)

    def cancel(self, order: Order, reference: str) -> None:
        """See `Executor`."""
        self.of(order.lane).cancel(order, reference)

    def fetch(self, order: Order, reference: str) -> None:
        """See `Executor`."""
        self.of(order.lane).fetch(order, reference)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where lanes run that run far away; nothing is read, imported or asked before it is wanted.

    Attributes:
        settings: of the lanes.
        environ: what a lane's place is reached with, by the lane's name: the environment and secrets.
        clock: seconds since the epoch.
        stop: says that an interrupt was heard; what takes long is left for another time then.
    """

    settings: Settings
    environ: Callable[[str], Mapping[str, str]]
    clock: Callable[[], float]
    stop: Callable[[], bool] = lambda: False

    def executors(self) -> Mapping[str, Executor]:
        """The executors, by kind."""
        return {KIND: ByLane(of=cache(self._executor))}

    def check(self, names: Iterable[str]) -> None:
        """Refuse lanes far away that miss something on this machine: a library, a token, a trusted host.

        Args:
            names: of those that are begun; others may miss what they like.

        Raises:
            SettingsError: there is no token, or none is to be sent there.
            CommandError: an extra is not installed.
        """
        for name in names:
            if self.settings.model.lanes[name].where.kind == KIND:
                self._far(name)

    def _executor(self, name: str) -> Executor:
        """The executor of a lane.

        Raises:
            UsageError: there is no such lane any more, or it runs here.
            SettingsError: what it wants to connect is missing.
            CommandError: an extra is not installed.
        """
        lane = self.settings.model.lanes.get(name)
        if lane is None or lane.where.kind != KIND:
            raise UsageError(
                f"there is no lane {name} far away any more",
                where=self.settings.path,
                remedy="what was started of it goes on there; see its page",
            )
        return Remote(
            far=self._far(name),
            clock=self.clock,
            wants_results=lane.run.pytorch is not None,
            remember=self._remember,
        )

    def _remember(self, folder: Path, run: str, lane: str) -> None:
        found = read_run(folder, now=self.clock(), run=run, lane=lane)
        with open_kept(self.settings, os.environ, warn=lambda _: None) as kept:
            record_run(kept, found, repository=self.settings.model.report.repository, at=self.clock())

    def _far(self, name: str) -> Far:
        """The place where a lane runs, with what it wants of this machine found.

        Raises:
            SettingsError: there is no token, or none is to be sent there.
            CommandError: an extra is not installed.
        """
        try:
            return self._place(name)
        except SettingsError as error:
            remedy = f"{error.remedy}, in the environment or in the file of secrets (`lane_worker.secrets`)"
            raise SettingsError(f"lane {name}: {error.what}", where=error.where, remedy=remedy) from error

    def _place(self, name: str) -> Far:
        where = self.settings.model.lanes[name].where.openshift
        from ci.lanes.openshift import OpenShiftFar  # noqa: PLC0415  # its client takes a second

        assert where is not None  # noqa: S101  # so says its kind
        return OpenShiftFar(
            where,
            self.environ(name),
            base=self.settings.base,
            runs=self.settings.resolve(self.settings.model.runs),
            settings=self.settings.path,
            stop=self.stop,
        )
