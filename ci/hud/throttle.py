"""At most so many posts in any minute, refused ones counted, over all processes of a user on this machine."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from filelock import FileLock, Timeout

from test_selection.files import write_text

POSTS_A_MINUTE = 60
WINDOW_S = 60.0
LOCK_TIMEOUT_S = 10.0
# A clock that was set back leaves times ahead of now; nobody waits longer than this for one of those.
AHEAD_S = 15 * 60.0


class Throttle(Protocol):
    """Lets posts pass, and holds them up."""

    def take(self, now: float) -> float:
        """Count a post at `now` and return 0, or return the seconds to wait before asking again."""

    def hold(self, until: float) -> None:
        """Let nothing pass before `until`, in seconds since the epoch: the server said so."""


class MemoryThrottle:
    """For one process."""

    def __init__(self, limit: int = POSTS_A_MINUTE, window_s: float = WINDOW_S) -> None:
        self._limit, self._window_s = limit, window_s
        self._times: list[float] = []
        self._held_until = 0.0

    def take(self, now: float) -> float:
        """As `Throttle` has it."""
        if held_s := held(self._held_until, now):
            return held_s
        wait_s, self._times = taken(self._times, now, limit=self._limit, window_s=self._window_s)
        return wait_s

    def hold(self, until: float) -> None:
        """As `Throttle` has it."""
        self._held_until = max(self._held_until, until)


class SharedThrottle:
    """For every process that names the same file; where it cannot be used, for this one alone.

    Args:
        path: the file with the times of the latest posts.
        limit: posts in a window.
        window_s: its seconds.
    """

    def __init__(self, path: Path, limit: int = POSTS_A_MINUTE, window_s: float = WINDOW_S) -> None:
        self._path, self._limit, self._window_s = path, limit, window_s
        self._alone = MemoryThrottle(limit, window_s)

    def take(self, now: float) -> float:
        """As `Throttle` has it."""
        found = self._change(lambda times, until: self._take(times, until, now))
        return self._alone.take(now) if found is None else found

    def hold(self, until: float) -> None:
        """As `Throttle` has it."""
        self._alone.hold(until)
        self._change(lambda times, held_until: (0.0, times, max(until, held_until)))

    def _take(self, times: Sequence[float], until: float, now: float) -> tuple[float, Sequence[float], float]:
        if held_s := held(until, now):
            return held_s, times, until
        wait_s, kept = taken(times, now, limit=self._limit, window_s=self._window_s)
        return wait_s, kept, until

    def _change(
        self, change: Callable[[Sequence[float], float], tuple[float, Sequence[float], float]]
    ) -> float | None:
        """Apply a change to the file under its lock; None where that cannot be had (law 7)."""
        with contextlib.suppress(OSError, Timeout):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self._path.with_suffix(".lock"), timeout=LOCK_TIMEOUT_S, mode=0o600):
                wait_s, times, until = change(*self._read())
                write_text(self._path, json.dumps({"times": list(times), "until": until}), mode=0o600)
                return wait_s
        return None

    def _read(self) -> tuple[list[float], float]:
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            return [float(one) for one in content["times"]], float(content["until"])
        except (FileNotFoundError, ValueError, TypeError, KeyError, RecursionError):
            return [], 0.0


def taken(times: Sequence[float], now: float, *, limit: int, window_s: float) -> tuple[float, list[float]]:
    """Seconds to wait at `now`, and the times to keep; 0 where the post may go, which is counted then."""
    kept = sorted(one for one in times if now - window_s < one <= now + AHEAD_S)[-limit:]
    if len(kept) < limit:
        return 0.0, [*kept, now]
    return max(kept[0] + window_s - now, 0.001), kept


def held(until: float, now: float) -> float:
    """Seconds until `until`; 0 where that is over, or so far ahead that the clock was set back."""
    return until - now if 0 < until - now <= AHEAD_S else 0.0


def shared_throttle(url: str, repository: str, folder: Path | None = None) -> Throttle:
    """The throttle of an endpoint and a repository, which is what the relay counts by.

    Args:
        url: where reports go.
        repository: owner/name they are for.
        folder: where the times are noted; None takes the user's own in the temporary folder.
    """
    folder = own_folder() if folder is None else folder
    if folder is None:
        return MemoryThrottle()
    name = hashlib.sha256(f"{url}\n{repository}".encode("utf-8", "backslashreplace")).hexdigest()[:16]
    return SharedThrottle(folder / f"{name}.json")


def own_folder() -> Path | None:
    """A folder in the temporary one that only this user can write; None where there is none to be had."""
    folder = Path(tempfile.gettempdir()) / f"spyre-ci-posts-{os.getuid()}"
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022:
            return folder
    return None
