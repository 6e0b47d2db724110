"""The outbox of a run folder: a file a report, kept until the endpoint has it.

    outbox/000001-<hash>.json             waiting, in the order of their numbers
    outbox/delivered/000001-<hash>.json   taken, with the answer as the last attempt

A file is `spyre-ci/report/1`, with the fields of `Report`. Times are ISO-8601 in UTC.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from filelock import FileLock

from ci.core.errors import BadFileError, MissingInputError, SpyreCiError
from ci.core.locks import alone
from ci.core.text import iso_utc
from ci.hud.answers import Answer
from ci.hud.payload import JOB_KEYS
from test_selection.files import convert, read_json, write_json

KIND = "report"
FOLDER = "outbox"
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
    """One report that waits or was delivered.

    Attributes:
        name: of its file.
        identity: repository, delivery, workflow, job, check run, run, attempt and status.
        created_at: when it was put here.
        payload: what is sent.
        attempts: what became of earlier attempts, the latest last.
        under_way: when an attempt began that nobody noted the end of; empty where there is none.
    """

    name: str
    identity: str
    created_at: str
    payload: dict[str, Any]
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
        return str(self._workflow.get("status", ""))

    @property
    def job(self) -> str:
        """What the two reports of one job have in common."""
        parts = (self.payload.get("delivery_id"), *(self._workflow.get(key) for key in JOB_KEYS))
        return "/".join(map(str, parts))

    @property
    def last_outcome(self) -> str:
        """What the latest attempt at this payload came to; empty where there was none."""
        return str(self.attempts[-1].get("outcome", "")) if self.attempts else ""

    @property
    def _workflow(self) -> dict[str, Any]:
        workflow = self.payload.get("workflow")
        return workflow if isinstance(workflow, dict) else {}

    def tried(self, at: str, outcome: str, **more: Any) -> Report:
        """The report after another attempt."""
        attempts = (*self.attempts, {"at": at, "outcome": outcome, **more})
        # A doubt outlives the attempts that follow it, however many: it says what a later 400 means.
        doubt = [one for one in attempts[:-KEPT_ATTEMPTS] if one.get("doubtful")][:1]
        attempts = (*doubt, *attempts[len(doubt) - KEPT_ATTEMPTS :])
        return replace(self, attempts=attempts, under_way="")


class Outbox:
    """The reports of one run folder.

    Args:
        run_dir: the run's folder.
        clock: seconds since the epoch.
        name: of the folder in it; another way out has another one.
    """

    def __init__(self, run_dir: Path, clock: Callable[[], float], *, name: str = FOLDER) -> None:
        self.run_dir, self.folder = run_dir, run_dir / name
        self.delivered_folder = self.folder / "delivered"
        self._clock = clock

    def enqueue(self, identity: str, payload: Mapping[str, Any]) -> Path | None:
        """Keep a report until it is delivered.

        The same identity never waits twice: a newer payload takes the waiting one's place in the queue, and
        what was delivered already, unchanged, is not sent again.

        Returns:
            The waiting file, or None where the endpoint has exactly this.
        """
        content, now = dict(payload), iso_utc(self._clock())
        with self._state_lock():
            waiting = next((one for one in self.pending() if one.identity == identity), None)
            if waiting is None:
                done = self.delivered(identity)
                if done and done[-1].payload == content:
                    return None
                digest = hashlib.sha256(identity.encode("utf-8", "backslashreplace")).hexdigest()[:12]
                name = f"{self._next_number():06d}-{digest}.json"
                waiting = Report(name=name, identity=identity, created_at=now, payload=content)
            elif waiting.payload == content:
                return self.folder / waiting.name
            else:
                corrected = waiting.tried(now, "corrected", doubtful=waiting.doubtful)
                waiting = replace(corrected, payload=content)
            return _write(self.folder, waiting)

    def delivered(self, identity: str | None = None) -> list[Report]:
        """What the endpoint has, of one identity or of all."""
        found, _ = _read_all(self.delivered_folder)
        return [one for one in found if identity in {None, one.identity}]

    def pending(self) -> list[Report]:
        """What waits, in the order it came."""
        return _read_all(self.folder)[0]

    def ends(self) -> list[Report]:
        """The ends of jobs, those that the endpoint has and then those that wait."""
        # Looked at first: what is settled meanwhile moves to the others, and must not be missed.
        waiting = self.pending()
        return [one for one in (*self.delivered(), *waiting) if one.status == "completed"]

    def unreadable(self) -> list[BadFileError]:
        """Files in the outbox that are no reports; they are left where they are."""
        return _read_all(self.folder)[1]

    def begin(self, report: Report) -> None:
        """Note that an attempt begins, so that a kill before its answer is noted leaves a doubt."""
        with self._state_lock():
            current = _read(self.folder / report.name)
            if current.under_way:
                current = current.tried(current.under_way, "killed", doubtful=True)
            _write(self.folder, replace(current, under_way=iso_utc(self._clock())))

    def record(self, report: Report, answer: Answer) -> None:
        """Note what became of an attempt; a settled report moves to `delivered/`.

        A report that was replaced while it was under way stays: the endpoint has the older one.
        """
        told = {"status": answer.status, "detail": answer.detail, "doubtful": answer.doubtful}
        with self._state_lock():
            current = _read(self.folder / report.name)
            tried = current.tried(iso_utc(self._clock()), answer.outcome.value, **told)
            if not answer.outcome.settled or current.payload != report.payload:
                _write(self.folder, tried)
                return
            # Written there before it is removed here: a kill in between sends it again and loses nothing.
            _write(self.delivered_folder, tried)
            (self.folder / report.name).unlink()

    def sending(self, *, timeout_s: float = 0) -> AbstractContextManager[None]:
        """The right to send, held by one process at a time.

        Raises:
            OutboxBusyError: another process has it.
        """
        busy = OutboxBusyError(
            "another process is sending these reports", where=self.folder, remedy="wait until it ends"
        )
        return alone(self.folder / ".sending.lock", busy, timeout_s=timeout_s)

    def _state_lock(self) -> FileLock:
        self.folder.mkdir(parents=True, exist_ok=True)
        return FileLock(self.folder / ".state.lock", timeout=STATE_LOCK_TIMEOUT_S)

    def _next_number(self) -> int:
        files = (*self.folder.glob("*.json"), *self.delivered_folder.glob("*.json"))
        numbers = [path.name.partition("-")[0] for path in files]
        return max((int(number) for number in numbers if number.isdecimal()), default=0) + 1


def _read_all(folder: Path) -> tuple[list[Report], list[BadFileError]]:
    reports: list[Report] = []
    bad: list[BadFileError] = []
    for path in sorted(folder.glob("*.json")):
        try:
            if path.is_file():
                reports.append(_read(path))
            elif os.path.lexists(path):
                bad.append(_unusable("is not a file", path))
        except MissingInputError:
            continue  # whoever sends has moved it since it was listed
        except BadFileError as error:
            bad.append(error)
        except OSError as error:
            bad.append(_unusable(f"cannot be read: {error.strerror or error}", path))
    return reports, bad


def _unusable(what: str, path: Path) -> BadFileError:
    return BadFileError(what, where=path, remedy="remove it, or fix its permissions")


def _read(path: Path) -> Report:
    content = {**read_json(path, KIND), "name": path.name}
    return convert(content, Report, where=path, remedy="create the report again")


def _write(folder: Path, report: Report) -> Path:
    content = asdict(report)
    path: Path = folder / content.pop("name")
    write_json(path, KIND, content)
    return path
