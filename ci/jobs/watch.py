"""Watch a job until it ends: list, watch, go on from where a watch ended, and show what is heard."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_TEST_FAILED, EXIT_USAGE, MissingInputError
from ci.core.progress import ticking
from ci.core.text import one_line, span
from ci.jobs.board import Board
from ci.jobs.cluster import Cluster
from ci.jobs.errors import ForbiddenError, GoneError
from ci.jobs.fate import NODE_AWAY, Fate, Phase
from ci.jobs.labels import selector
from ci.jobs.paths import path_of
from ci.jobs.standing import End, Standing, standing_of
from test_selection.shard_subset import format_ranges

TICK_S = 0.5
# A watch is opened anew so often; between two the job itself is looked at. An open one costs nothing.
WINDOW_S = 15
SETTLED_WINDOW_S = 1
# What a pod has to write its account once it is ended (`terminationGracePeriodSeconds`), and a margin.
ENDING_S = 120 + 30
# A server that ends each watch at once is not asked more often than this.
SHORTEST_S = 1.0
# Which codes of a pod beat which, worst first; others are infrastructure's.
_WORST = (EXIT_INCOMPLETE, EXIT_USAGE, EXIT_TEST_FAILED)


class View(Protocol):
    """What shows a job to people."""

    def tell(self, fate: Fate) -> None:
        """A pod ended badly."""

    def show(self, board: Board, now: float) -> None:
        """What is known has changed, or time has passed."""

    def end(self, board: Board) -> None:
        """The watch is over."""


class Watcher:
    """Takes what is heard of a job.

    Args:
        board: of the job.
        view: that shows it.
        clock: monotonic seconds.
    """

    def __init__(self, board: Board, view: View, clock: Callable[[], float]) -> None:
        self.board = board
        self._view, self._clock = view, clock
        self._lock = threading.Lock()

    def take(self, kind: str, pod: Mapping[str, Any]) -> None:
        """One event of a watch."""
        with self._lock:
            now = self._clock()
            if (fate := self.board.take(kind, pod, now)) is not None:
                self._view.tell(fate)
            self._view.show(self.board, now)

    def relist(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """All pods there are."""
        with self._lock:
            now = self._clock()
            for fate in self.board.relist(pods, now):
                self._view.tell(fate)
            self._view.show(self.board, now)

    def look(self, standing: Standing) -> None:
        """What the job's controller says now."""
        with self._lock:
            self.board.look(standing, self._clock())

    def stalled_s(self) -> float:
        """For how many seconds nothing has run, while pods are pending."""
        return self.board.stalled_s(self._clock())

    @contextlib.contextmanager
    def moving(self) -> Iterator[None]:
        """Within, the view moves though nothing happens; it ends with the block."""
        try:
            with ticking(self._tick, TICK_S, name="watch"):
                yield
        finally:
            self._view.end(self.board)

    def _tick(self) -> None:
        with self._lock:
            self._view.show(self.board, self._clock())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a watch ended.

    Attributes:
        exit_code: 0 all done, 1 tests failed, 2 pods ended for wrong usage, 3 something is missing.
        why: on one line; empty where all is done.
    """

    exit_code: int
    why: str = ""


def find_job(cluster: Cluster, name: str) -> tuple[str, dict[str, Any]]:
    """The path and content of a job: a Job or, of a server, a Deployment.

    Raises:
        MissingInputError: there is none of this name.
        ClusterError: the cluster does not say.
    """
    for kind in ("Job", "Deployment"):
        path = path_of(kind, cluster.namespace, name)
        if (found := cluster.get(path)) is not None:
            return path, found
    raise MissingInputError(
        f"there is no job {one_line(name)} in the namespace {cluster.namespace}",
        remedy="see `spyre-ci job list`; a job that has ended is removed after its ttl_minutes",
    )


def watch_job(
    cluster: Cluster, name: str, watcher: Watcher, *, path: str, pending_limit_s: float | None = None
) -> Ending:
    """Watch a job's pods until it ends, or until nothing can come any more.

    Args:
        cluster: it is on.
        name: of the job.
        watcher: takes what happens.
        path: of the job, as `find_job` has it.
        pending_limit_s: seconds after which a job is given up whose pods all wait, or are stuck; None: never.

    Raises:
        ClusterError: the cluster went away for longer than a call is tried; the job goes on.
    """
    clock, version = cluster.effects.monotonic, ""
    over_at: float | None = None
    while True:
        began = clock()
        job = cluster.get(path)
        if job is None:
            return Ending(exit_code=EXIT_INCOMPLETE, why="the job is gone: somebody removed it")
        watcher.look(standing_of(job))
        over = watcher.board.standing.over is not None
        if not version or (over and over_at is None):
            pods, version = cluster.items(path_of("Pod", cluster.namespace), labels=selector(name))
            watcher.relist(pods)
        if over:
            # Pods that are ended write what they have: whoever gathers it is not to come before that.
            over_at = began if over_at is None else over_at
            left = job.get("kind") != "Deployment" and watcher.board.counts[Phase.RUNNING]
            if not left or clock() - over_at >= ENDING_S:
                return ending_of(watcher.board)
        elif pending_limit_s is not None and watcher.stalled_s() >= pending_limit_s:
            return _given_up(cluster, name, watcher.board, pending_limit_s)
        version = _window(cluster, name, watcher, version)
        if (rest_s := SHORTEST_S - (clock() - began)) > 0:
            cluster.effects.sleep(rest_s)


def ending_of(board: Board) -> Ending:
    """How a job ended whose controller says that it did, or is about to; pure."""
    standing = board.standing
    if standing.over is not End.FAILED:
        return Ending(exit_code=EXIT_OK)
    bad = [index for index in range(board.pods) if board.fate(index).phase is not Phase.DONE]
    if not standing.reason.startswith("FailedIndexes"):
        return Ending(
            exit_code=EXIT_INCOMPLETE, why=f"{standing.reason}; without an end: {_pods(bad)}{_left(board)}"
        )
    found = {board.fate(index).exit_code for index in bad}
    known = {code if code in _WORST else EXIT_INCOMPLETE for code in found}
    code = next((one for one in _WORST if one in known), EXIT_INCOMPLETE)
    return Ending(exit_code=code, why=f"failed for good: {_pods(bad)}{_left(board)}")


def _left(board: Board) -> str:
    """The pods that did not go though their job is over."""
    stay = [index for index in range(board.pods) if board.fate(index).phase is Phase.RUNNING]
    still = f"; still being ended: {_pods(stay)}" if stay else ""
    return f"{still}; {_stuck(board)}" if board.stuck else still


def _stuck(board: Board) -> str:
    return f"{_pods(sorted(board.stuck))}: {NODE_AWAY}"


def _pods(indexes: list[int]) -> str:
    return f"pods {format_ranges(indexes)}" if indexes else "none"


def _window(cluster: Cluster, name: str, watcher: Watcher, version: str) -> str:
    """Take what one watch tells; the version the next goes on from, empty where one has to list again."""
    watched = cluster.watch(
        path_of("Pod", cluster.namespace),
        labels=selector(name),
        resource_version=version,
        # Where nothing is left to happen, the controller is about to say so.
        timeout_s=SETTLED_WINDOW_S if watcher.board.settled else WINDOW_S,
    )
    with contextlib.closing(watched) as events:
        try:
            for event in events:
                pod = event["object"]
                version = str(pod.get("metadata", {}).get("resourceVersion") or version)
                if event["type"] != "BOOKMARK":
                    watcher.take(event["type"], pod)
                    if watcher.board.quiet:
                        break  # the job itself says whether that is all
        except GoneError:
            return ""
    return version


def _given_up(cluster: Cluster, name: str, board: Board, limit_s: float) -> Ending:
    why = board.standing.waits or _refused_pods(cluster, name) or worst_reason(board)
    said = f"nothing has run for {span(limit_s)}, and the job is left as it is: {why}"
    return Ending(exit_code=EXIT_INCOMPLETE, why=said)


def _refused_pods(cluster: Cluster, name: str) -> str:
    """Why the job's controller can make no pods, such as a quota; empty where it can, or nobody may ask."""
    fields = f"involvedObject.kind=Job,involvedObject.name={name}"
    try:
        events, _ = cluster.items(path_of("Event", cluster.namespace), fields=fields)
    except ForbiddenError:
        return ""
    failed = [one for one in events if one.get("reason") == "FailedCreate"]
    newest = max(failed, key=lambda one: str(one.get("lastTimestamp") or ""), default=None)
    return "" if newest is None else f"no pod can be made: {one_line(str(newest.get('message')))}"


def worst_reason(board: Board) -> str:
    """Why most of what is pending is, and what is stuck."""
    stuck = [_stuck(board)] if board.stuck else []
    why = [f"{number} x {why}" for why, number in board.reasons.most_common(1)]
    return "; ".join([*why, *stuck]) or "nobody says why"
