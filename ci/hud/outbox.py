"""The outbox of a run folder: a file a report, kept until the endpoint has it.

    outbox/000001-<hash>.json             waiting, in the order of their numbers
    outbox/delivered/000001-<hash>.json   taken, with the answer

A file is `spyre-ci/report/1`: {"identity", "created_at", "payload", "attempts": [...]}, delivered ones also
`answer`. Times are ISO-8601 in UTC.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ci.errors import BadFileError, SpyreCiError
from ci.hud.answers import Answer
from test_selection.files import read_json, write_json

KIND = "report"
KEPT_ATTEMPTS = 20
# Held for a few file operations only, so whoever waits longer than this waits for a process that hangs.
STATE_LOCK_TIMEOUT_S = 30


class OutboxBusyError(SpyreCiError):
    """Another process is sending this outbox; two would send everything twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One report that waits.

    Attributes:
        path: its file.
        identity: repository, delivery, workflow, job, check run, run, attempt and status.
        payload: what is sent.
        created_at: when it was put here.
        attempts: what became of earlier attempts, the latest last.
    """

    path: Path
    identity: str
    payload: dict[str, Any]
    created_at: str
    attempts: tuple[dict[str, Any], ...] = ()

    @property
    def doubtful(self) -> bool:
        """Whether the endpoint may have taken it at an attempt that ended without a 200."""
        return any(attempt.get("doubtful") for attempt in self.attempts)


class Outbox:
    """The reports of one run folder.

    Args:
        run_dir: the run's folder.
        clock: seconds since the epoch.
    """

    def __init__(self, run_dir: Path, clock: Callable[[], float]) -> None:
        self.folder = run_dir / "outbox"
        self.delivered_folder = self.folder / "delivered"
        self._clock = clock

    def enqueue(self, identity: str, payload: Mapping[str, Any]) -> Path | None:
        """Keep a report until it is delivered.

        The same identity never waits twice: a newer payload takes the waiting one's place in the queue, and
        what was delivered already, unchanged, is not sent again.

        Returns:
            The waiting file, or None where the endpoint has exactly this.
        """
        with self._state_lock():
            waiting = {report.identity: report for report in self.pending()}.get(identity)
            if waiting is not None:
                if waiting.payload != payload:
                    self._write(waiting.path, identity, payload, waiting.created_at, waiting.attempts)
                return waiting.path
            done = [one for one in _read_all(self.delivered_folder)[0] if one.identity == identity]
            if done and done[-1].payload == payload:
                return None
            path = self.folder / f"{self._next_number():06d}-{_digest(identity)}.json"
            self._write(path, identity, payload, _iso(self._clock()), ())
            return path

    def pending(self) -> list[Report]:
        """What waits, in the order it came."""
        return _read_all(self.folder)[0]

    def unreadable(self) -> list[BadFileError]:
        """Files in the outbox that are no reports; they are left where they are."""
        return _read_all(self.folder)[1]

    def record(self, report: Report, answer: Answer) -> None:
        """Note what became of an attempt; a settled report moves to `delivered/`.

        A report that was replaced while it was under way stays: the endpoint has the older one.
        """
        attempt = {
            "at": _iso(self._clock()),
            "outcome": answer.outcome.value,
            "status": answer.status,
            "detail": answer.detail,
            "doubtful": answer.doubtful,
        }
        with self._state_lock():
            current = _read(report.path)
            attempts = (*current.attempts, attempt)[-KEPT_ATTEMPTS:]
            if not answer.outcome.settled or current.payload != report.payload:
                self._write(report.path, current.identity, current.payload, current.created_at, attempts)
                return
            # Written there before it is removed here: a kill in between sends it again and loses nothing.
            path = self.delivered_folder / report.path.name
            self._write(path, current.identity, current.payload, current.created_at, attempts, answer=attempt)
            report.path.unlink()

    @contextmanager
    def sending(self) -> Iterator[None]:
        """The right to send, held by one process at a time.

        Raises:
            OutboxBusyError: another process has it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            lock = FileLock(self.folder / ".sending.lock", timeout=0)
            lock.acquire()
        except Timeout as error:
            raise OutboxBusyError(
                "another process is sending these reports", where=self.folder, remedy="let it end"
            ) from error
        try:
            yield
        finally:
            lock.release()

    def _state_lock(self) -> FileLock:
        self.folder.mkdir(parents=True, exist_ok=True)
        return FileLock(self.folder / ".state.lock", timeout=STATE_LOCK_TIMEOUT_S)

    def _next_number(self) -> int:
        names = [
            path.name for folder in (self.folder, self.delivered_folder) for path in folder.glob("*.json")
        ]
        numbers = [int(name.partition("-")[0]) for name in names if name.partition("-")[0].isdecimal()]
        return max(numbers, default=0) + 1

    def _write(
        self,
        path: Path,
        identity: str,
        payload: Mapping[str, Any],
        created_at: str,
        attempts: tuple[dict[str, Any], ...],
        **more: Any,
    ) -> None:
        content = {"identity": identity, "created_at": created_at, "payload": payload, "attempts": attempts}
        write_json(path, KIND, {**content, **more})


def _read_all(folder: Path) -> tuple[list[Report], list[BadFileError]]:
    reports: list[Report] = []
    bad: list[BadFileError] = []
    for path in sorted(folder.glob("*.json")):
        try:
            reports.append(_read(path))
        except BadFileError as error:
            bad.append(error)
    return reports, bad


def _read(path: Path) -> Report:
    content = read_json(path, KIND)
    identity, payload = content.get("identity"), content.get("payload")
    if not isinstance(identity, str) or not isinstance(payload, dict):
        raise BadFileError("has no identity or no payload", where=path, remedy="make the report again")
    return Report(
        path=path,
        identity=identity,
        payload=payload,
        created_at=str(content.get("created_at", "")),
        attempts=tuple(one for one in content.get("attempts", ()) if isinstance(one, dict)),
    )


def _digest(identity: str) -> str:
    return hashlib.sha256(identity.encode("utf-8", "backslashreplace")).hexdigest()[:12]


def _iso(epoch_s: float) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="milliseconds")
