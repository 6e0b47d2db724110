"""From a run folder to the reports it owes HUD."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ci.core.errors import BadFileError, SpyreCiError
from ci.hud import dispatched
from ci.hud.callback import explain
from ci.hud.details import details_of, forgiven
from ci.hud.dispatched import DETAILS_KEY, Dispatch
from ci.hud.payload import RunIdentity, check_run_of, completed, nightly_completed, workflow_of
from test_selection.files import read_json

CHECK_RUN_VARIABLE = "SPYRE_CI_CHECK_RUN_ID"
ARTIFACT_VARIABLE = "SPYRE_CI_ARTIFACT_URL"
SUMMARY, IDENTITY = "summary.json", "run.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """How a run is reported.

    Attributes:
        environ: may hold GitHub's check run id and the report's URL.
        dispatch: what the relay sent; None of a run that reports itself.
        own_server: whether the server is ours, so that a pull request's report may carry details too.
    """

    environ: Mapping[str, str]
    dispatch: Dispatch | None = None
    own_server: bool = False

    @property
    def check_run_id(self) -> str | None:
        """The job's check run, one for both callbacks."""
        if self.dispatch is not None:
            return self.dispatch.check_run_id or None
        return self.environ.get(CHECK_RUN_VARIABLE) or None


def find_dispatch(run_dir: Path, environ: Mapping[str, str], event_file: Path | None) -> Dispatch | None:
    """The dispatch of a run: the one kept in its folder, else the one of this job, which is kept then.

    Raises:
        SpyreCiError: the file of either cannot be read.
    """
    known = dispatched.kept(run_dir)
    if known is not None:
        return known
    found = dispatched.read_event(environ, event_file)
    if found is None:
        return None
    # Fixed now, so that a report made in another job has the same.
    given = environ.get(CHECK_RUN_VARIABLE) or check_run_of(read_identity(run_dir))
    found = replace(found, check_run_id=given)
    dispatched.keep(run_dir, found)
    return found


def read_identity(run_dir: Path) -> RunIdentity:
    """Who the run of a folder is: as its planner wrote it, else as its summary has it.

    Raises:
        SpyreCiError: neither file is there, or it does not say.
    """
    path = run_dir / IDENTITY
    if path.is_file():
        return identity_of(read_json(path, "run"), path=path)
    path = run_dir / SUMMARY
    return identity_of(read_json(path, "summary").get("identity"), path=path)


def job_of(run_dir: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """What both callbacks of a run's job say alike: its run, attempt, names and check run.

    Raises:
        SpyreCiError: a file of the folder cannot be read.
    """
    ways = Ways(environ=environ, dispatch=dispatched.kept(run_dir))
    return workflow_of(read_identity(run_dir), status="completed", check_run_id=ways.check_run_id)


def job_here(identity: RunIdentity, environ: Mapping[str, str]) -> dict[str, Any]:
    """The same of a job that has no run folder yet; empty what only the folder's run can tell."""
    told = workflow_of(identity, status="completed")
    return told | {"check_run_id": environ.get(CHECK_RUN_VARIABLE, ""), "job_name": ""}


def identity_of(content: Any, *, path: Path) -> RunIdentity:
    """Who a run is.

    Raises:
        BadFileError: a key is missing or of the wrong kind.
    """
    try:
        return RunIdentity.model_validate(content)
    except ValidationError as error:
        raise _bad(f"identity.{explain(error.errors()[0])}", path) from error


def begun_of(identity: RunIdentity, ways: Ways) -> dict[str, Any] | None:
    """The `in_progress` callback of a run; None where it owes none, being self-reported."""
    if ways.dispatch is None:
        return None
    return ways.dispatch.callback(workflow_of(identity, status="in_progress", check_run_id=ways.check_run_id))


def ended_of(summary: Mapping[str, Any], ways: Ways, *, path: Path) -> dict[str, Any]:
    """The `completed` callback of a `summary.json`.

    Raises:
        BadFileError: it does not say who the run is, or counts a verdict that is none.
    """
    identity = identity_of(summary.get("identity"), path=path)
    try:
        told: dict[str, Any] = {
            "verdicts": dict(summary["verdicts"]),
            "exit_code": int(summary["exit_code"]),
            "quarantined": forgiven(summary),
            "check_run_id": ways.check_run_id,
            "artifact_url": _without_user(ways.environ.get(ARTIFACT_VARIABLE, "")),
        }
        alone = nightly_completed(identity, run=str(summary["run"]), **told, details=details_of(summary))
    except KeyError as error:
        raise _bad(f"the key {error} is missing", path) from error
    except (TypeError, ValueError, AttributeError) as error:
        raise _bad(str(error), path) from error
    if ways.dispatch is None:
        return alone
    details = alone["payload"][DETAILS_KEY] if ways.own_server else None
    return ways.dispatch.callback(alone["workflow"], details)


def given_up_of(identity: RunIdentity, ways: Ways, *, conclusion: str, at: str) -> dict[str, Any] | None:
    """The `completed` callback of a run that ended before it had a summary; None of a self-reported one.

    Args:
        identity: who the run is.
        ways: how it is reported.
        conclusion: failure or cancelled.
        at: when it ended, ISO-8601.
    """
    if ways.dispatch is None:
        return None
    ended = identity.model_copy(update={"completed_at": at})
    return ways.dispatch.callback(
        completed(ended, verdicts={}, exit_code=1, check_run_id=ways.check_run_id, conclusion=conclusion)
    )


def _without_user(url: str) -> str:
    """A URL without user name and password; its query stays, which may be what signs it."""
    return re.sub(r"(?<=://)[^/?#\s]*@", "", url)


def _bad(what: str, path: Path) -> SpyreCiError:
    return BadFileError(what, where=path, remedy="write it again with `spyre-ci report`")
