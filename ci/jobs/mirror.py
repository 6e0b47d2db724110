"""A pod's journals and logs, put into a bucket as they grow.

How the run was asked to go is put whole. Any other file is put as pieces, each known by where in the file it
begins. The last one is put anew whenever lines have come, until it is full. Whatever is cut off, what is
there is whole lines from the beginning.

What that costs the bucket is bounded: the more pods a job has the longer each waits between two looks, and a
piece is small, for it is the piece that is put again and again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from ci.core.errors import SpyreCiError
from ci.jobs.layout import JOURNAL, KINDS, PIECE_BYTES, SETTINGS, is_file, piece_name

# A piece that has so much is full, and is not put anew.
FULL_BYTES = 16 << 10
# What is put at once, where so much is new.
LARGE_BYTES = 256 << 10
# How often journals are looked at; a lost pod loses what it wrote since. All pods of a job together look so
# often a second at most, however many they are, up to a bound.
LOOK_S, MOST_LOOK_S = 0.5, 5.0
LOOKS_A_SECOND = 128
# How often logs are: nothing is decided by them.
LOGS_S = 10.0


def look_s(pods: int) -> float:
    """Seconds between two looks of a pod, by how many pods the job has."""
    return min(max(LOOK_S, pods / LOOKS_A_SECOND), MOST_LOOK_S)


@dataclass(slots=True)
class _Sent:
    """How much of a file is in the bucket: up to `end`; its last piece begins at `base`."""

    base: int = 0
    end: int = 0


class Sender:
    """Puts what is new of a folder's files into a bucket; whatever fails is tried again the next time."""

    def __init__(
        self, put: Callable[[str, bytes], object], folder: Path, settled: Collection[str] = ()
    ) -> None:
        """Send nothing yet.

        Args:
            put: takes a name below the pod's place, and what it is to hold.
            folder: the pod's run folder.
            settled: files of earlier pods, which are there already.
        """
        self._put, self._folder, self._settled = put, folder, frozenset(settled)
        self._sent: dict[str, _Sent] = {}
        self._settings = b""

    def send(self, *, final: bool = False, logs: bool = True) -> None:
        """Send what is new, whole lines of it.

        Args:
            final: nothing comes any more: a line that has no end goes, too.
            logs: whether logs are sent, too, and not only journals.

        Raises:
            SpyreCiError: the bucket does not take it.
            OSError: a file cannot be read.
        """
        path = self._folder / SETTINGS
        if path.is_file() and (data := path.read_bytes()) != self._settings:
            self._put(SETTINGS, data)
            self._settings = data
        for file in self._files():
            if not (logs or file.endswith(JOURNAL)):
                continue
            self._send(file, self._sent.setdefault(file, _Sent()), final=final)

    def unsent(self) -> int:
        """How many bytes are not in the bucket."""
        sizes = {file: (self._folder / file).stat().st_size for file in self._files()}
        return sum(max(size - self._sent.get(file, _Sent()).end, 0) for file, size in sizes.items())

    def _files(self) -> list[str]:
        return [
            f"{kind}/{path.name}"
            for kind in KINDS
            for path in sorted((self._folder / kind).glob("*.*"))
            if is_file(kind, path.name) and f"{kind}/{path.name}" not in self._settled and path.is_file()
        ]

    def _send(self, file: str, sent: _Sent, *, final: bool) -> None:
        path = self._folder / file
        while path.stat().st_size > sent.end:
            with path.open("rb") as stream:
                stream.seek(sent.base)
                data = stream.read(PIECE_BYTES)
            length = piece_length(data, final=final)
            if sent.base + length > sent.end:
                self._put(piece_name(file, sent.base), data[:length])
                sent.end = sent.base + length
            elif length == 0 or len(data) <= LARGE_BYTES:
                return  # a line that is being written
            if length >= FULL_BYTES:
                sent.base = sent.end
            if len(data) <= LARGE_BYTES:
                return
            sent.base = sent.end


def piece_length(data: bytes, *, final: bool) -> int:
    """How much of what stands from a piece's beginning on goes into it.

    Whole lines, no more than are put at once; a line that is longer than that, whole; of one that is longer
    than any piece may be, a part.

    Args:
        data: what stands there, at most as much as a piece may hold.
        final: whether nothing comes any more.
    """
    if len(data) <= LARGE_BYTES:
        return len(data) if final else data.rfind(b"\n") + 1
    if end := data.rfind(b"\n", 0, LARGE_BYTES) + 1:
        return end
    if end := data.find(b"\n", LARGE_BYTES) + 1:
        return end
    return len(data) if final or len(data) == PIECE_BYTES else 0


class Mirror:
    """A thread that sends while a pod runs; a bucket that is away costs the run nothing."""

    def __init__(self, sender: Sender, say: Callable[[str], object], look_s: float = LOOK_S) -> None:
        """Begin.

        Args:
            sender: sends.
            say: told in a line each when the bucket goes away, and when it is back.
            look_s: seconds between two looks.
        """
        self._sender, self._say, self._look_s = sender, say, look_s
        self._ended = threading.Event()
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="mirror", daemon=True)
        self._thread.start()

    def finish(self, budget_s: float) -> str:
        """Send the rest.

        Args:
            budget_s: how long that may take, in seconds.

        Returns:
            What could not be sent, a sentence; empty where all is there.
        """
        self._ended.set()
        self._thread.join(budget_s)
        if not self._thread.is_alive():
            return ""
        why = self._trouble or "it does not answer"
        return f"{self._sender.unsent():,} bytes of journals and logs are not in the store: {why}"

    def _run(self) -> None:
        logs_at = time.monotonic()
        while not self._ended.wait(self._look_s):
            logs = time.monotonic() >= logs_at
            if self._try(logs=logs) and logs:
                logs_at = time.monotonic() + LOGS_S
        while not self._try(final=True):
            time.sleep(min(self._look_s, LOOK_S))

    def _try(self, *, final: bool = False, logs: bool = True) -> bool:
        try:
            self._sender.send(final=final, logs=logs)
        except (SpyreCiError, OSError) as error:
            if not self._trouble:
                self._say(f"the store is away, and is tried again: {error}")
            self._trouble = str(error)
            return False
        if self._trouble:
            self._say("the store is back")
        self._trouble = ""
        return True
