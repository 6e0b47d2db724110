"""Runs that the relay dispatched for a pull request: what it sent, and the callbacks that echo it.

The relay calls `repository_dispatch` with a `client_payload` of `event_type`, `delivery_id` and `payload`,
the upstream webhook's body; a callback is that, unchanged, with `workflow` beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ci.core.errors import BadFileError, MissingInputError
from ci.hud.callback import NIGHTLY_EVENTS
from test_selection.files import convert, read_bounded, read_json, write_json

FILE, KIND = "dispatch.json", "dispatch"
EVENT = "repository_dispatch"
DETAILS_KEY = "spyre_ci"
# GitHub sends at most 64 KiB of client_payload, and what else an event holds is about as much.
MAX_EVENT_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """What the relay sent.

    Attributes:
        client_payload: as it came.
        check_run_id: of the job that answers for it, one for both callbacks; empty where none was given.
        run_id: the CI's run that answers for it; 0 where nobody has begun.
        run_attempt: the attempt of it whose begin has that check run.
    """

    client_payload: dict[str, Any]
    check_run_id: str = ""
    run_id: int = 0
    run_attempt: int = 0

    @property
    def delivery_id(self) -> str:
        """The id that was dispatched."""
        return str(self.client_payload["delivery_id"])

    def callback(
        self, workflow: Mapping[str, Any], details: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The body of a callback.

        Args:
            workflow: what the job says of itself.
            details: what HUD's contract has no field for. Upstream wants the payload unchanged, so they are
                for our own server; a key of the dispatch's is never written over.
        """
        echoed = dict(self.client_payload)
        payload = echoed.get("payload")
        if not isinstance(payload, dict):
            # A sender that flattens: its client_payload is the payload.
            payload = echoed
            echoed = {key: echoed[key] for key in ("event_type", "delivery_id")}
        if details is not None:
            payload = {DETAILS_KEY: details, **payload}
        return {**echoed, "payload": payload, "workflow": dict(workflow)}


def dispatch_of(content: Any, *, where: Path | str) -> Dispatch | None:
    """The dispatch an event file or a bare `client_payload` tells of; None where the relay did not send it.

    Raises:
        BadFileError: it looks like the relay's and is not whole.
    """
    told = content.get("client_payload", content) if isinstance(content, dict) else None
    if not isinstance(told, dict) or "delivery_id" not in told:
        return None
    remedy = "pass the event of the relay's repository_dispatch unchanged"
    for key in ("delivery_id", "event_type"):
        # Printed for pipelines, a line a name: what ends a line would be a name of its own.
        if not isinstance(told.get(key), str) or not told[key].strip() or not told[key].isprintable():
            raise BadFileError(f"client_payload.{key}: must be a line of text", where=where, remedy=remedy)
    if told["event_type"] in NIGHTLY_EVENTS:
        what = f"client_payload.event_type: {told['event_type']!r} is never dispatched"
        raise BadFileError(what, where=where, remedy=remedy)
    return Dispatch(client_payload=told)


def read_event(environ: Mapping[str, str], event_file: Path | None) -> Dispatch | None:
    """The dispatch that started this job, from the file that is named, else from GitHub's event.

    Args:
        environ: `GITHUB_EVENT_NAME` and `GITHUB_EVENT_PATH` name GitHub's.
        event_file: one given by hand; it has to hold a dispatch.

    Raises:
        MissingInputError: there is no such file.
        BadFileError: it cannot be read, or contains no dispatch where it has to.
    """
    path = event_file
    if path is None and environ.get("GITHUB_EVENT_NAME") == EVENT and environ.get("GITHUB_EVENT_PATH"):
        path = Path(environ["GITHUB_EVENT_PATH"])
    if path is None:
        return None
    remedy = "check the path and the file"
    try:
        found = dispatch_of(json.loads(read_bounded(path, MAX_EVENT_BYTES)), where=path)
    except FileNotFoundError as error:
        raise MissingInputError("there is no such event file", where=path, remedy=remedy) from error
    except OSError as error:
        raise BadFileError(f"cannot be read: {error.strerror}", where=path, remedy=remedy) from error
    except (ValueError, RecursionError) as error:
        raise BadFileError("cannot be read as JSON", where=path, remedy=remedy) from error
    if found is None and event_file is not None:
        raise BadFileError(
            "contains no dispatch of the relay: client_payload.delivery_id is missing",
            where=event_file,
            remedy="check report.event_file",
        )
    return found


def keep(run_dir: Path, dispatch: Dispatch) -> None:
    """Write the dispatch into the run folder, for whoever reports the run later."""
    write_json(run_dir / FILE, KIND, asdict(dispatch))


def kept(run_dir: Path) -> Dispatch | None:
    """The dispatch of a run folder; None where the run was not dispatched.

    Raises:
        BadFileError: the file is none of ours.
    """
    path = run_dir / FILE
    if not path.is_file():
        return None
    remedy = "remove it to report the run as a nightly"
    found = convert(read_json(path, KIND), Dispatch, where=path, remedy=remedy)
    if dispatch_of(found.client_payload, where=path) is None:
        raise BadFileError("contains no dispatch", where=path, remedy=remedy)
    return found
