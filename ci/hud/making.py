"""From a run folder to the reports it owes HUD, and what a run, its job, a shard and a test are known by."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ci.core.errors import BadFileError, SettingsError, SpyreCiError
from ci.core.provider import detect
from ci.core.text import one_line
from ci.hud import dispatched
from ci.hud.callback import explain
from ci.hud.dispatched import DETAILS_KEY, Dispatch, kept, read_event
from ci.hud.payload import RunIdentity, check_run_of, completed, delivery_of, nightly_completed, workflow_of
from ci.record.identity import EMULATED
from ci.store.identity import job_number, key_of_test, shard_key
from test_selection.files import read_json

CHECK_RUN_VARIABLE = "SPYRE_CI_CHECK_RUN_ID"
ARTIFACT_VARIABLE = "SPYRE_CI_ARTIFACT_URL"
SUMMARY, IDENTITY = "summary.json", "run.json"
# Our word in summary.json, and HUD's, which has no reserved ones.
_SHARES = {"selected": "selected", "run": "ran", "passed": "passed"}
FIELDS = (
    "run_id",
    "run_attempt",
    "check_run_id",
    "job_id",
    "workflow",
    "job_name",
    "delivery_id",
    "shard_key",
    "test_key",
)


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


def details_of(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `RunDetails` that a `summary.json` fills beside who the run is and its verdicts.

    They are not validated here: what does not hold is named when the report is checked.

    Args:
        summary: its content.

    Raises:
        AttributeError, TypeError, KeyError, ValueError: a table of it is none.
    """
    identity = summary.get("identity") or {}
    told: dict[str, Any] = {
        **({"emulated": True} if identity.get("back_end") == EMULATED else {}),
        "cards": summary.get("cards"),
        "seed": identity.get("seed"),
        "in_scope": summary.get("in_scope") or None,
        "in_scope_seconds": summary.get("in_scope_s"),
        "first_failure_seconds": summary.get("first_failure_s"),
    }
    for name, share in (summary.get("shares") or {}).items():
        if name in _SHARES:
            told[_SHARES[name]] = share["count"]
            told[f"{_SHARES[name]}_seconds"] = share.get("seconds")
    return told


def forgiven(summary: Mapping[str, Any]) -> int:
    """How many failed tests of a summary do not turn the run red."""
    return int((summary.get("quarantine") or {}).get("forgiven", 0))


def name_run(
    run_dir: Path | None,
    *,
    repository: str,
    environ: Mapping[str, str],
    epoch_s: float,
    event_file: Path | None = None,
    shard: int | None = None,
    test: str | None = None,
) -> dict[str, str]:
    """FIELDS as text; empty what does not apply or is not known yet.

    Args:
        run_dir: the run's folder; None takes what the environment says of the job.
        repository: owner/name it is reported for.
        environ: the CI's variables, and the check run's id.
        epoch_s: seconds since the epoch; the run id where neither folder nor CI has one.
        event_file: the relay's dispatch, given by hand.
        shard: a shard's index.
        test: a test's canonical id.

    Raises:
        SpyreCiError: the folder or the dispatch cannot be read.
    """
    identity = _of_environ(environ, epoch_s) if run_dir is None else read_identity(run_dir)
    dispatch = (kept(run_dir) if run_dir is not None else None) or read_event(environ, event_file)
    workflow = job_of(run_dir, environ) if run_dir is not None else job_here(identity, environ)
    check_run_id = workflow["check_run_id"]
    values: dict[str, Any] = {
        "run_id": identity.run_id,
        "run_attempt": identity.run_attempt,
        "check_run_id": check_run_id,
        "job_id": job_number(check_run_id, repository=repository) if check_run_id else "",
        "workflow": workflow["name"],
        "job_name": workflow["job_name"],
        "delivery_id": dispatch.delivery_id if dispatch is not None else delivery_of(identity),
        "shard_key": "" if shard is None else shard_key(identity.run_id, identity.run_attempt, shard),
        "test_key": "" if test is None else key_of_test(test),
    }
    return {name: one_line(str(values[name])) for name in FIELDS}


def _of_environ(environ: Mapping[str, str], epoch_s: float) -> RunIdentity:
    provider = detect(environ, epoch_s=epoch_s)
    try:
        return RunIdentity.model_validate(
            {
                "run_id": provider.run_id,
                "run_attempt": provider.run_attempt,
                "job_name": provider.job_name,
                "workflow": provider.workflow,
                "started_at": epoch_s,
            }
        )
    except ValidationError as error:
        raise SettingsError(
            explain(error.errors()[0]),
            where=f"the environment of {provider.name}",
            remedy="leave the CI's variables as it sets them",
        ) from error
