"""The outbox of a run folder: a file a report, kept until the endpoint has it.

    outbox/000001-<hash>.json             waiting, in the order of their numbers
    outbox/delivered/000001-<hash>.json   taken, with the answer

A file is `spyre-ci/report/1`: {"identity", "created_at", "payload", "attempts": [...]}, delivered ones also
`answer`; `under_way` is when an attempt began whose answer is not noted yet. Times are ISO-8601 in UTC.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from ci.core.errors import BadFileError, MissingInputError, SpyreCiError
from ci.core.locks import alone
from ci.hud.answers import Answer
from ci.hud.payload import JOB_KEYS
from test_selection.files import read_json, write_json

KIND = "report"
FOLDER = "outbox"
# What is noted in place of an answer when a waiting report gets a newer payload.
CORRECTED = "corrected"
KEPT_ATTEMPTS = 20
# Held for a few file operations only, so whoever waits longer than this waits for a process that hangs.
STATE_LOCK_TIMEOUT_S = 30


class OutboxBusyError(SpyreCiError):
    """Another process is sending this outbox; two would send everything twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What stays in an outbox, and why."""

    identity: str
    outcome: str
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One report that waits.

    Attributes:
        path: its file.
        identity: repository, delivery, workflow, job, check run, run, attempt and status.
        payload: what is sent.
        created_at: when it was put here.
        attempts: what became of earlier attempts, the latest last.
        under_way: when an attempt began that nobody noted the end of; empty where there is none.
    """

    path: Path
    identity: str
    payload: dict[str, Any]
    created_at: str
    attempts: tuple[dict[str, Any], ...] = ()
    under_way: str = ""

    @property
    def doubtful(self) -> bool:
        """Whether the endpoint may have taken it at an attempt that ended without a 200.

        So ended one whose process was killed before it could note the answer.
        """
        return bool(self.under_way) or any(attempt.get("doubtful") for attempt in self.attempts)

    @property
    def status(self) -> str:
        """What it tells of the job: in_progress or completed; empty where it is no callback."""
        return str(_table(self.payload.get("workflow")).get("status", ""))

    @property
    def job(self) -> str:
        """What the two reports of one job have in common."""
        told = _table(self.payload.get("workflow"))
        parts = (self.payload.get("delivery_id"), *(told.get(key) for key in JOB_KEYS))
        return "/".join(map(str, parts))

    @property
    def last_outcome(self) -> str:
        """What the latest attempt at this payload came to; empty where there was none."""
        return str(self.attempts[-1].get("outcome", "")) if self.attempts else ""


class Outbox:
    """The reports of one run folder.

    Args:
        run_dir: the run's folder.
        clock: seconds since the epoch.
        name: of the folder in it; another way out has another one.
    """

    def __init__(self, run_dir: Path, clock: Callable[[], float], *, name: str = FOLDER) -> None:
        self.folder = run_dir / name
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
                    corrected = {
                        "at": _iso(self._clock()),
                        "outcome": CORRECTED,
                        "doubtful": waiting.doubtful,
                    }
                    attempts = (*waiting.attempts, corrected)[-KEPT_ATTEMPTS:]
                    self._write(waiting.path, identity, payload, waiting.created_at, attempts)
                return waiting.path
            done = self._delivered(identity)
            if done and done[-1].payload == payload:
                return None
            path = self.folder / f"{self._next_number():06d}-{_digest(identity)}.json"
            self._write(path, identity, payload, _iso(self._clock()), ())
            return path

    def knows(self, identity: str) -> bool:
        """Whether a report of this identity waits or was delivered."""
        return self.has_delivered(identity) or any(one.identity == identity for one in self.pending())

    def has_delivered(self, identity: str) -> bool:
        """Whether the endpoint has a report of this identity."""
        return bool(self._delivered(identity))

    def has_completed(self) -> bool:
        """Whether the end of a job waits or was delivered."""
        both = (*self.pending(), *_read_all(self.delivered_folder)[0])
        return any(one.status == "completed" for one in both)

    def begin(self, report: Report) -> None:
        """Note that an attempt begins, so that a kill before its answer is noted leaves a doubt."""
        with self._state_lock():
            current = _read(report.path)
            attempts = current.attempts
            if current.under_way:
                lost = {"at": current.under_way, "outcome": "killed", "doubtful": True}
                attempts = (*attempts, lost)[-KEPT_ATTEMPTS:]
            self._write(
                report.path,
                current.identity,
                current.payload,
                current.created_at,
                attempts,
                under_way=_iso(self._clock()),
            )

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

    def sending(self) -> AbstractContextManager[None]:
        """The right to send, held by one process at a time.

        Raises:
            OutboxBusyError: another process has it.
        """
        busy = OutboxBusyError(
            "another process is sending these reports", where=self.folder, remedy="let it end"
        )
        return alone(self.folder / ".sending.lock", busy)

    def _delivered(self, identity: str) -> list[Report]:
        return [one for one in _read_all(self.delivered_folder)[0] if one.identity == identity]

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
            if path.is_file():
                reports.append(_read(path))
            elif os.path.lexists(path):
                bad.append(_bad("is no file", path))
        except MissingInputError:
            continue  # whoever sends has moved it since it was listed
        except BadFileError as error:
            bad.append(error)
        except OSError as error:
            bad.append(_bad(f"cannot be read: {error.strerror or error}", path))
    return reports, bad


def _bad(what: str, path: Path) -> BadFileError:
    return BadFileError(what, where=path, remedy="remove it, or mend its rights")


def _read(path: Path) -> Report:
    content = read_json(path, KIND)
    identity, payload = content.get("identity"), content.get("payload")
    if not isinstance(identity, str) or not isinstance(payload, dict):
        raise BadFileError("has no identity or no payload", where=path, remedy="make the report again")
    attempts = content.get("attempts", [])
    if not isinstance(attempts, list):
        raise BadFileError("its attempts are no list", where=path, remedy="make the report again")
    return Report(
        path=path,
        identity=identity,
        payload=payload,
        created_at=str(content.get("created_at", "")),
        attempts=tuple(one for one in attempts if isinstance(one, dict)),
        under_way=str(content.get("under_way", "")),
    )


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _digest(identity: str) -> str:
    return hashlib.sha256(identity.encode("utf-8", "backslashreplace")).hexdigest()[:12]


def _iso(epoch_s: float) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="milliseconds")
