"""Read the logs of a job's pods as they come, to the screen or into files: no log is held in memory.

The API server fetches a log from the pod's node, and answers 5xx itself where that node does not; such nodes
are told apart from a cluster that does not answer.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, UsageError
from ci.core.text import counted, one_line, plain
from ci.core.workflow_commands import defused
from ci.jobs.cluster import Cluster, path_of
from ci.jobs.errors import ClusterAwayError, CutError, MissingError, RefusedError
from ci.jobs.labels import selector
from ci.jobs.status import index_of
from test_selection.files import atomic_writer
from test_selection.shard_subset import format_ranges

Unit = Literal["minutes", "hours", "days", "weeks"]
SECONDS: Mapping[Unit, int] = {"minutes": 60, "hours": 3600, "days": 86_400, "weeks": 7 * 86_400}
# One node must not make the logs of all others wait: so long its first log is asked for, others once.
LOG_PATIENCE_S = 15.0
# So many silent nodes one after another are the cluster itself.
MOST_AWAY = 3
# How often a followed log that was cut is taken up again without a line between.
RESUMES = 5
# A longer line is shown in parts.
LONGEST_LINE = 1 << 16
_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")
Write = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A pod whose log is read; `prefix` stands before its lines."""

    index: int
    name: str
    prefix: str
    node: str = ""


def find_sources(cluster: Cluster, name: str, *, index: int | None, follow: bool) -> list[Source]:
    """The pods of a job, or of one index, that are there; to be followed, the newest of one index.

    Raises:
        UsageError: several are to be followed.
        ClusterError: the cluster does not say.
    """
    pods, _ = cluster.items(path_of("Pod", cluster.namespace), labels=selector(name))
    found = [pod for pod in pods if index in {None, index_of(pod)}]
    found.sort(key=lambda pod: (index_of(pod), str(pod["metadata"].get("creationTimestamp"))))
    several = Counter(map(index_of, found))
    if follow and len(several) > 1:
        raise UsageError(
            f"cannot follow {counted(len(found), 'pod')} at once",
            remedy="give --index, or leave out --follow",
        )
    sources = [_source(pod, alone=several[index_of(pod)] == 1) for pod in found]
    return sources[-1:] if follow else sources


def _source(pod: Mapping[str, Any], *, alone: bool) -> Source:
    """The pod as a source of lines, told apart from others of its index."""
    index, name = index_of(pod), one_line(str(pod["metadata"].get("name", "")))
    prefix = f"[{index}] " if alone else f"[{index} {name.rpartition('-')[2]}] "
    node = str((pod.get("spec") or {}).get("nodeName") or "")
    return Source(index=index, name=name, prefix=prefix, node=node)


def missing(sources: list[Source], pods: int, index: int | None) -> str:
    """A sentence about the pods that have no log any more, or not yet; may be empty; pure."""
    there = {one.index for one in sources}
    gone = [number for number in (range(pods) if index is None else [index]) if number not in there]
    return f"no log of pods {format_ranges(gone)}: they are gone or not created yet" if gone else ""


@dataclass(slots=True, kw_only=True)
class LogReader:
    """Reads logs of pods, and knows which nodes do not answer.

    Attributes:
        cluster: the pods are on.
        query: which part of each log: see `Cluster.log`.
        say: takes a sentence about a log that cannot be had.
    """

    cluster: Cluster
    query: Mapping[str, object]
    say: Write
    _ends: list[bool] = field(default_factory=list, init=False)
    _away: set[str] = field(default_factory=set, init=False)
    _in_a_row: int = field(default=0, init=False)

    def write_all(
        self, sources: list[Source], into: Callable[[Source], AbstractContextManager[Write]]
    ) -> int:
        """Write the logs of pods, one after another.

        Args:
            sources: the pods.
            into: takes a pod's lines.

        Returns:
            The exit code: 3 if none could be had, one was cut, or a node or the cluster did not answer.
        """
        for number, source in enumerate(sources):
            if self._in_a_row >= MOST_AWAY:
                left = format_ranges([one.index for one in sources[number:]])
                self.say(f"the cluster does not answer: skipping the logs of pods {left}")
                break
            self._write(source, into)
        return EXIT_OK if self._ends and all(self._ends) else EXIT_INCOMPLETE

    def _write(self, source: Source, into: Callable[[Source], AbstractContextManager[Write]]) -> None:
        named, begun = f"log of pod {source.index} ({source.name})", False
        with contextlib.suppress(_NoLogError), into(source) as write:
            try:
                for line in self._lines(source):
                    begun = True
                    write(shown_line(line, source.prefix))
                self._ends.append(True)
            except (MissingError, RefusedError) as error:
                self.say(f"no {named}: {error.said}")
                raise _NoLogError from None
            except ClusterAwayError as error:
                self._ends.append(False)
                if not begun and not isinstance(error, CutError):
                    self.say(f"no {named}: {error.said or error.what}")
                    self._in_a_row += source.node not in self._away
                    self._away.add(source.node)
                    return
                # What came of it is worth keeping.
                self.say(f"the {named} is incomplete: {error.what}")
            self._in_a_row = 0

    def _lines(self, source: Source) -> Iterator[bytes]:
        patience_s = 0 if source.node in self._away else LOG_PATIENCE_S
        log = partial(self.cluster.log, source.name, patience_s=patience_s)
        if not self.query.get("follow"):
            yield from split_lines(log(self.query))
            return
        last, new, cuts = b"", True, 0
        # A runtime gives all lines that it reads at once the same time: those of the last time are counted.
        of_last = 0
        while True:
            skip = of_last
            since = {"sinceTime": last.decode(), "sinceSeconds": None} if last else {}
            try:
                for line in split_lines(log({**self.query, **since, "timestamps": True})):
                    time, text = without_time(line)
                    if time == last and time:
                        skip -= 1
                        new = skip < 0
                        of_last += new
                    elif time:
                        new = time > last
                        last, of_last, skip = (time, 1, 0) if new else (last, of_last, skip)
                    # A part of a long line has no time, and is as new as its beginning.
                    if new:
                        cuts = 0
                        yield text
            except CutError:
                cuts += 1
                if cuts > RESUMES:
                    raise
            else:
                return


class _NoLogError(Exception):
    """Nothing of a log can be had, so that no file of it is made."""


def split_lines(chunks: Iterable[bytes], longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """Lines without their ends, the last one even if it has none; longer ones in parts."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield from (line[at : at + longest] for at in range(0, len(line) or 1, longest))
        while len(rest) > longest:
            yield rest[:longest]
            rest = rest[longest:]
    if rest:
        yield rest


def without_time(line: bytes) -> tuple[bytes, bytes]:
    """The time that a cluster puts before a line, and the line; a part of a line has no time."""
    time, found, rest = line.partition(b" ")
    return (time, rest) if found and _TIME.match(time) else (b"", line)


def shown_line(line: bytes, prefix: str) -> str:
    """A line behind its pod's prefix, harmless to a terminal and a CI."""
    text = plain(line.removesuffix(b"\r").decode(errors="replace")).replace("\n", " ")
    return defused(f"{prefix}{text}")


def sink(to: Path | None, echo: Write) -> Callable[[Source], AbstractContextManager[Write]]:
    """Where the lines of a pod go: to `echo`, or to a file of its own in a folder."""
    if to is None:
        return lambda _: contextlib.nullcontext(echo)
    return lambda source: _file(to / f"{source.name}.log")


@contextlib.contextmanager
def _file(path: Path) -> Iterator[Write]:
    with atomic_writer(path) as stream:
        yield lambda line: stream.write(line.encode("utf-8", "backslashreplace") + b"\n")
