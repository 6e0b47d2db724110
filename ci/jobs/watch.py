"""Watch a job until it ends, and show its pods: a line that stays on a terminal, some lines in a log."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from ci.core.errors import (
    EXIT_INCOMPLETE,
    EXIT_OK,
    EXIT_TEST_FAILED,
    EXIT_USAGE,
    MissingInputError,
)
from ci.core.provider import in_log
from ci.core.text import counted, one_line, span
from ci.core.workflow_commands import defused
from ci.jobs.cluster import Cluster, path_of
from ci.jobs.errors import ClusterError, ForbiddenError, GoneError, JobGoesOnError
from ci.jobs.labels import selector
from ci.jobs.status import NODE_AWAY, UNBORN, Aggregates, End, Phase, PodStatus, job_status
from test_selection.shard_subset import format_ranges

# A control plane that is renewed is away for some minutes; a watch has nothing else to do.
PATIENCE_S = 600
# A watch is opened again so often; between two the job itself is looked at, and the pods are counted.
WINDOW_S = 3
# A server that ends each watch at once is not asked more often than this.
SHORTEST_S = 1.0
# Of a pod that is ended: `terminationGracePeriodSeconds`, and a margin.
ENDING_S = 120 + 30
# Once pods have been missing for so long, the events say why none can be made.
UNBORN_S = 30.0
# In a log: a line where something changed, and one where nothing did.
LINE_EVERY_S, SILENCE_S = 10.0, 60.0
MAX_REASONS, MAX_TOLD = 3, 100
# Exit codes of pods, worst first; others are the infrastructure's.
_WORST = (EXIT_INCOMPLETE, EXIT_USAGE, EXIT_TEST_FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a watch ended.

    Attributes:
        exit_code: 0 all done, 1 tests failed, 2 pods were used wrongly, 3 something is missing.
        why: on one line; empty if all is done.
        goes_on: the job has not ended: it was given up.
    """

    exit_code: int
    why: str = ""
    goes_on: bool = False


def overall(found: Aggregates) -> str:
    """The pods by phase, on one line."""
    counts = [f"{found.counts[one]:,} {one}" for one in Phase if found.counts[one]]
    again = f"; {counted(found.replaced, 'pod')} replaced" if found.replaced > 0 else ""
    return f"{counted(found.job.pods, 'pod')}: {', '.join(counts)}{again}"


def reasons(found: Aggregates) -> list[str]:
    """Why pods are pending: the commonest reasons, or what the whole job waits for."""
    if found.job.waits and found.counts[Phase.PENDING]:
        return [f"the job {found.job.waits}"]
    common = found.reasons.most_common(MAX_REASONS + 1)
    lines = [f"{number:,} pending: {why}" for why, number in common[:MAX_REASONS]]
    return [*lines, "and for other reasons"] if len(common) > MAX_REASONS else lines


@dataclass(slots=True, kw_only=True)
class View:
    """Shows a job to people.

    Attributes:
        console: for people.
        environ: tells a CI's log from a terminal.
    """

    console: Console
    environ: Mapping[str, str]
    _status: Status | None = field(default=None, init=False)
    _last: str = field(default="", init=False)
    _at: float | None = field(default=None, init=False)
    _told: int = field(default=0, init=False)

    def tell(self, pod: PodStatus) -> None:
        """A pod ended badly."""
        self._told += 1
        if self._told <= MAX_TOLD:
            self.say(pod.line)

    def show(self, found: Aggregates, now: float) -> None:
        """Show the state; in a log only where it changed, or after a silence."""
        line, why = overall(found), reasons(found)
        if self.console.is_terminal and not self.console.is_dumb_terminal and not in_log(self.environ):
            if self._status is None:
                self._status = self.console.status("")
                self._status.start()
            self._status.update(escape("\n  ".join([line, *why])))
            return
        since = None if self._at is None else now - self._at
        if since is None or (since >= LINE_EVERY_S and (line != self._last or since >= SILENCE_S)):
            self._last, self._at = line, now
            self.say("; ".join([line, *why]))

    def end(self, found: Aggregates) -> None:
        """Show how it ended."""
        if self._status is not None:
            self._status.stop()
        if self._told > MAX_TOLD:
            self.say(f"{self._told - MAX_TOLD:,} more failed pods are not shown")
        self.say(overall(found))

    def say(self, text: str) -> None:
        """A line; what it quotes of a cluster commands neither a terminal nor a CI."""
        self.console.print(defused(one_line(text, 2000)), markup=False, highlight=False, soft_wrap=True)


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
        remedy="see `oc get jobs`; a job that has ended is removed after its ttl_minutes",
    )


def watch_job(
    cluster: Cluster, name: str, view: View, *, pending_limit_s: float | None = None
) -> tuple[Ending, Aggregates]:
    """Watch a job's pods until it ends, or until nothing can come any more.

    Args:
        cluster: it is on.
        name: of the job.
        view: shows it.
        pending_limit_s: seconds after which a job of which no pod runs is given up; None: never.

    Raises:
        JobGoesOnError: the cluster cannot be asked any more; the job goes on.
    """
    path, job = find_job(cluster, name)
    watch = _Watch(cluster, name, view, Aggregates(job_status(job)))
    try:
        return watch.until_over(path, pending_limit_s), watch.found
    except ClusterError as error:
        remedy = f"the job is still running; watch it again with `spyre-ci job watch {name}`"
        if isinstance(error, ForbiddenError):
            remedy = f"sign in again (oc login): {remedy}"
        raise JobGoesOnError(error.what, where=error.where, remedy=remedy, said=error.said) from None
    finally:
        view.end(watch.found)


class _Watch:
    """One watch of a job: what is known of it, and since when nothing has run."""

    def __init__(self, cluster: Cluster, name: str, view: View, found: Aggregates) -> None:
        self.found = found
        self._cluster, self._name, self._view = cluster, name, view
        self._clock: Callable[[], float] = cluster.effects.monotonic
        self._pods, self._version = path_of("Pod", cluster.namespace), ""
        self._idle_since = self._unborn_since = self._clock()
        self._done = 0

    def until_over(self, path: str, pending_limit_s: float | None) -> Ending:
        """Take what became of the pods, then look at the job, until it is over or given up."""
        over_at: float | None = None
        while True:
            began = self._clock()
            if not self._version:
                self._list()
            # After the pods: a job that was suspended says so before its pods are gone.
            if (job := self._cluster.get(path)) is None:
                return Ending(exit_code=EXIT_INCOMPLETE, why="the job was removed from the cluster")
            status = job_status(job)
            if status.over and over_at is None:
                over_at = began
                self._list()
            for pod in self.found.look(status):
                self._view.tell(pod)
            self._view.show(self.found, self._clock())
            if over_at is not None:
                # Pods that are ended still write what they have, which whoever collects waits for.
                left = job.get("kind") != "Deployment" and self.found.counts[Phase.RUNNING]
                if not left or self._clock() - over_at >= ENDING_S:
                    return ending_of(self.found)
            elif pending_limit_s is not None and self._idle_s() >= pending_limit_s:
                why = self.found.job.waits or refused_pods(self._cluster, self._name) or worst(self.found)
                said = f"no pod has run for {span(pending_limit_s)}; the job stays on the cluster: {why}"
                return Ending(exit_code=EXIT_INCOMPLETE, why=said, goes_on=True)
            self._explain_unborn()
            self._window()
            if (rest_s := SHORTEST_S - (self._clock() - began)) > 0:
                self._cluster.effects.sleep(rest_s)

    def _list(self) -> None:
        pods, self._version = self._cluster.items(self._pods, labels=selector(self._name))
        self.found.relist(pods)

    def _window(self) -> None:
        """Take the events of one watch."""
        watched = self._cluster.watch(
            self._pods, labels=selector(self._name), resource_version=self._version, timeout_s=WINDOW_S
        )
        try:
            with contextlib.closing(watched) as events:
                for event in events:
                    pod = event["object"]
                    self._version = str(pod.get("metadata", {}).get("resourceVersion") or self._version)
                    if event["type"] != "BOOKMARK":
                        self.found.take(event["type"], pod)
        except GoneError:
            self._version = ""

    def _idle_s(self) -> float:
        """For how many seconds nothing has run while pods are pending or stuck."""
        counts = self.found.counts
        waiting = counts[Phase.PENDING] or self.found.stuck
        if counts[Phase.RUNNING] or not waiting or counts[Phase.DONE] > self._done:
            self._idle_since, self._done = self._clock(), counts[Phase.DONE]
        return self._clock() - self._idle_since

    def _explain_unborn(self) -> None:
        """Ask the events why no pod is made, once pods have been missing for a while."""
        now = self._clock()
        if not self.found.unborn or self.found.job.waits:
            self._unborn_since = now
        elif now - self._unborn_since >= UNBORN_S:
            self._unborn_since = now
            self.found.unborn_because = refused_pods(self._cluster, self._name) or UNBORN


def ending_of(found: Aggregates) -> Ending:
    """How a job ended that is over; pure."""
    job = found.job
    if job.over is not End.FAILED:
        return Ending(exit_code=EXIT_OK)
    pods = [found.pod(index) for index in range(job.pods)]
    bad = [one for one in pods if one.phase is not Phase.DONE]
    left = [one.index for one in bad if one.phase is Phase.RUNNING]
    more = f"; still terminating: {_pods(left)}" if left else ""
    more += f"; {_stuck(found)}" if found.stuck else ""
    named = _pods([one.index for one in bad])
    if not job.reason.startswith("FailedIndexes"):
        return Ending(exit_code=EXIT_INCOMPLETE, why=f"{job.reason}; not completed: {named}{more}")
    codes = {one.exit_code if one.exit_code in _WORST else EXIT_INCOMPLETE for one in bad}
    code = next((one for one in _WORST if one in codes), EXIT_INCOMPLETE)
    return Ending(exit_code=code, why=f"failed for good: {named}{more}")


def worst(found: Aggregates) -> str:
    """Why most of the pending pods wait, and which are stuck."""
    why = [f"{number} x {why}" for why, number in found.reasons.most_common(1)]
    return "; ".join([*why, *([_stuck(found)] if found.stuck else [])]) or "no reason given"


def refused_pods(cluster: Cluster, name: str) -> str:
    """Why the job's controller can make no pods, such as a quota; empty: it can, or nobody may ask."""
    fields = f"involvedObject.kind=Job,involvedObject.name={name}"
    try:
        events, _ = cluster.items(path_of("Event", cluster.namespace), fields=fields)
    except ForbiddenError:
        return ""
    failed = [one for one in events if one.get("reason") == "FailedCreate"]
    newest = max(failed, key=lambda one: str(one.get("lastTimestamp") or ""), default=None)
    return "" if newest is None else f"no pod can be created: {one_line(str(newest.get('message')))}"


def _stuck(found: Aggregates) -> str:
    return f"{_pods(sorted(found.stuck))}: {NODE_AWAY}"


def _pods(indexes: list[int]) -> str:
    return f"pods {format_ranges(indexes)}" if indexes else "none"
