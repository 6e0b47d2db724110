"""Read the logs of a job's pods as they come, to the screen or into files: nothing is held whole.

The API server fetches a log from the pod's node, and fails itself (5xx) where that does not answer; such
nodes are told apart from a cluster that does not answer.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, UsageError
from ci.core.text import counted, one_line
from ci.jobs.cluster import Cluster
from ci.jobs.errors import ClusterAwayError, CutError, MissingError, RefusedError
from ci.jobs.fate import index_of
from ci.jobs.labels import selector
from ci.jobs.log_lines import Unseen, shown_line, split_lines, without_time
from ci.jobs.paths import path_of
from test_selection.files import atomic_writer
from test_selection.shard_subset import format_ranges

# One node is not to make the logs of all others wait: so long its first is asked for, its others once.
LOG_PATIENCE_S = 15.0
# So many nodes one after another are the cluster itself.
MOST_AWAY = 3
MAIN = "main"
# Each log that is followed is a connection of its own.
MOST_FOLLOWED = 32
# How often a followed log that was cut is taken up again without a line between.
RESUMES = 5
Write = Callable[[str], object]


class Away:
    """What is known of nodes while one log after another is asked for."""

    def __init__(self) -> None:
        self._nodes: set[str] = set()
        self._in_a_row = 0

    @property
    def all(self) -> bool:
        """Whether it is the cluster itself that does not answer."""
        return self._in_a_row >= MOST_AWAY

    def patience_s(self, node: str) -> float:
        """For how long a log of a pod there is asked for."""
        return 0.0 if node in self._nodes else LOG_PATIENCE_S

    def answered(self) -> None:
        """The cluster did."""
        self._in_a_row = 0

    def silent(self, node: str) -> None:
        """A node did not; an empty name is that of one nobody knows."""
        self._in_a_row += node not in self._nodes
        self._nodes |= {node} - {""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which part of logs is asked for.

    Attributes:
        container: of the pods.
        since_s: the last so many seconds; None: all.
        follow: whether to wait for more until the pods end.
        previous: of the container before its last restart.
    """

    container: str = MAIN
    since_s: int | None = None
    follow: bool = False
    previous: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A pod whose log is asked for.

    Attributes:
        index: of the job's pods.
        name: of the pod.
        prefix: of its lines.
        node: it is on; empty where it is on none.
    """

    index: int
    name: str
    prefix: str
    node: str = ""


def sources_of(pods: list[dict[str, Any]], index: int | None) -> list[Source]:
    """The pods of a job, or of one index, in order; a prefix tells those of one index apart; pure."""
    told = sorted(
        (index_of(one), str(one["metadata"].get("creationTimestamp")), _name(one), _node(one)) for one in pods
    )
    wanted = [(number, name, node) for number, _, name, node in told if index in {None, number}]
    several = Counter(number for number, *_ in wanted)
    return [
        Source(
            index=number,
            name=name,
            prefix=f"[{number}] " if several[number] == 1 else f"[{number} {name.rpartition('-')[2]}] ",
            node=node,
        )
        for number, name, node in wanted
    ]


def find_sources(cluster: Cluster, name: str, *, index: int | None, follow: bool) -> list[Source]:
    """The pods of a job that are there.

    Raises:
        UsageError: they are too many to be followed.
        ClusterError: the cluster does not say.
    """
    pods, _ = cluster.items(path_of("Pod", cluster.namespace), labels=selector(name))
    sources = sources_of(pods, index)
    if follow and len(sources) > MOST_FOLLOWED:
        raise UsageError(
            f"{counted(len(sources), 'pod')} are more than the {MOST_FOLLOWED} that are followed at once",
            remedy="give --index, or read what is there without --follow",
        )
    return sources


def missing(sources: list[Source], pods: int, index: int | None) -> str:
    """The pods whose logs nobody has any more, or not yet; empty where there are none; pure."""
    there = {one.index for one in sources}
    gone = [number for number in (range(pods) if index is None else [index]) if number not in there]
    return f"no log of pods {format_ranges(gone)}: they are gone, or were not made yet" if gone else ""


def write_logs(
    cluster: Cluster,
    sources: list[Source],
    wanted: Wanted,
    into: Callable[[Source], AbstractContextManager[Write]],
    say: Write,
) -> int:
    """Write the logs of pods, one after another, or as they come where they are followed.

    Args:
        cluster: they are on.
        sources: the pods.
        wanted: of their logs.
        into: what takes a pod's lines.
        say: takes what is to be said of logs that cannot be had.

    Returns:
        The exit code: 3 where none could be had, one was cut, or a node or the cluster did not answer.
    """
    lock = threading.Lock()
    ends: list[bool] = []
    away = Away()

    def one(source: Source) -> None:
        try:
            with into(source) as write:
                patience_s = away.patience_s(source.node)
                ends.append(_write(cluster, source, wanted, told(write), told(say), patience_s=patience_s))
                away.answered()
        except (MissingError, RefusedError) as error:
            away.answered()
            told(say)(f"no log of pod {source.index} ({source.name}): {error.said}")
        except ClusterAwayError as error:
            away.silent(source.node)
            ends.append(False)
            told(say)(f"no log of pod {source.index} ({source.name}): {error.said or error.what}")

    def told(write: Write) -> Write:
        def locked(line: str) -> None:
            with lock:
                write(line)

        return locked

    if wanted.follow:
        _side_by_side([partial(one, source) for source in sources])
    else:
        for number, source in enumerate(sources, start=1):
            one(source)
            if away.all and number < len(sources):
                left = format_ranges([other.index for other in sources[number:]])
                say(f"the cluster does not answer: the logs of pods {left} are not asked for")
                break
    return EXIT_OK if True in ends and False not in ends else EXIT_INCOMPLETE


def _write(
    cluster: Cluster, source: Source, wanted: Wanted, write: Write, say: Write, *, patience_s: float
) -> bool:
    """Write a pod's log; whether it came to its end."""
    begun = False
    try:
        for line in _lines(cluster, source.name, wanted, patience_s):
            begun = True
            write(shown_line(line, source.prefix))
    except ClusterAwayError as error:
        if not begun and not isinstance(error, CutError):
            raise
        # What came of it is worth keeping.
        say(f"the log of pod {source.index} ({source.name}) is cut: {error.what}")
        return False
    return True


def _side_by_side(calls: list[Callable[[], None]]) -> None:
    failures: list[Exception] = []

    def guarded(call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001  # raised below, where somebody hears it
            failures.append(error)

    # As daemons, which do not keep whoever ends this by Ctrl-C.
    threads = [threading.Thread(target=guarded, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _lines(cluster: Cluster, pod: str, wanted: Wanted, patience_s: float) -> Iterator[bytes]:
    log = partial(cluster.log, pod, container=wanted.container, previous=wanted.previous)
    if not wanted.follow:
        yield from split_lines(log(since_s=wanted.since_s, patience_s=patience_s))
        return
    unseen, cuts = Unseen(), 0
    while True:
        # By the node's own clock, which is not that of whoever follows.
        since_time = unseen.last.decode(errors="replace")
        begins: dict[str, Any] = {"since_s": wanted.since_s, "patience_s": patience_s}
        # One that was there comes back as the cluster does.
        begins = {"since_time": since_time} if since_time else begins
        pieces = log(follow=True, timestamps=True, **begins)
        try:
            for line in split_lines(pieces):
                time, text = without_time(line)
                if unseen.take(time):
                    cuts = 0
                    yield text
        except CutError:
            cuts += 1
            if cuts > RESUMES:
                raise
            unseen.cut()
        else:
            return


def _node(pod: Mapping[str, Any]) -> str:
    return one_line(str((pod.get("spec") or {}).get("nodeName") or ""))


def _name(pod: Mapping[str, Any]) -> str:
    return one_line(str(pod["metadata"].get("name", "")))


Into = Callable[[Source], AbstractContextManager[Write]]


@contextlib.contextmanager
def into_one(write: Write) -> Iterator[Into]:
    """All lines to what takes a line."""

    @contextlib.contextmanager
    def into(_: Source) -> Iterator[Write]:
        yield write

    yield into


@contextlib.contextmanager
def into_file(path: Path) -> Iterator[Into]:
    """All lines to one file; what was followed until Ctrl-C is kept."""
    interrupted = False
    with _lines_to(path) as write, into_one(write) as into:
        try:
            yield into
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        raise KeyboardInterrupt


@contextlib.contextmanager
def into_folder(folder: Path) -> Iterator[Into]:
    """The lines of each pod to a file of its own, named as the pod; none where it has no log."""
    yield lambda source: _lines_to(folder / f"{source.name}.log")


@contextlib.contextmanager
def _lines_to(path: Path) -> Iterator[Write]:
    with atomic_writer(path) as stream:
        yield lambda line: stream.write(line.encode("utf-8", "backslashreplace") + b"\n")
