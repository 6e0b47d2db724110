"""What a run tells HUD, from its folder to its two callbacks: the job's names, counts and conclusion."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ci.core.errors import BadFileError, SpyreCiError
from ci.core.provider import detect
from ci.hud import dispatched
from ci.hud.callback import UPSTREAM_REPOSITORY, Attempt, Count, Identifier, RunDetails, Time, explain
from ci.hud.dispatched import DETAILS_KEY, Dispatch
from ci.record.identity import EMULATED
from test_selection.files import read_json

CHECK_RUN_VARIABLE = "SPYRE_CI_CHECK_RUN_ID"
ARTIFACT_VARIABLE = "SPYRE_CI_ARTIFACT_URL"
CANCELLED_VARIABLE = "SPYRE_CI_CANCELLED"
SUMMARY, IDENTITY = "summary.json", "run.json"
COMMIT = re.compile(r"[0-9a-f]{40}")
# Our word in summary.json, and HUD's, which has no reserved ones.
_SHARES = {"selected": "selected", "run": "ran", "passed": "passed"}
SCHEMA_VERSION = "1"
# HUD's conclusion of a run's exit code; of any other it is failure.
_CONCLUSIONS = {0: "success", 130: "cancelled"}
# What a job is known by beside repository and delivery; its two reports have them in common.
JOB_KEYS = ("name", "job_name", "check_run_id", "run_id", "run_attempt")

# HUD knows three counts, a run has nine verdicts. A test that did not give a pass where a pass was wanted is
# failed, whoever's fault it is, so that a hole never looks like success; passed + failed + skipped = total.
COUNT_OF_VERDICT: Mapping[str, Literal["passed", "failed", "skipped"]] = {
    "passed": "passed",
    "flaky": "passed",
    "xpassed": "passed",
    "failed": "failed",
    "hardware": "failed",
    "infrastructure": "failed",
    "not_run": "failed",
    "skipped": "skipped",
    "xfailed": "skipped",
}


class RunIdentity(BaseModel):
    """Who a run is, as `run.json` says, and `summary.json` under `identity`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run: str = ""
    run_id: Identifier
    run_attempt: Attempt = 1
    lane: str = ""
    job_name: str = ""
    workflow: str = ""
    url: str = ""
    provider: str = ""
    pytorch_version: str = ""
    pytorch_sha: str = ""
    pytorch_commit: str = ""
    device: str = ""
    stage: Count | None = None
    percent: float | None = None
    back_end: str = ""
    seed: int | None = None
    started_at: Time
    completed_at: Time | None = None


def count_verdicts(
    verdicts: Mapping[str, int], *, quarantined: int = 0, cancelled: bool = False
) -> dict[str, int]:
    """HUD's counts `{passed, failed, skipped, total}` of the nine verdicts (see COUNT_OF_VERDICT).

    Args:
        verdicts: verdict to number of tests.
        quarantined: how many of the failed do not turn the run red; they count as skipped, which is what the
            JUnit files say of them.
        cancelled: whether somebody ended the run; a test that was not started then is in no count, so that
            no pass rate falls.

    Raises:
        ValueError: a verdict is none of the nine; a test would be lost in silence. Or more are quarantined
            than failed.
    """
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for verdict, number in verdicts.items():
        if verdict not in COUNT_OF_VERDICT:
            raise ValueError(f"{verdict!r} is not a verdict; known are: {', '.join(COUNT_OF_VERDICT)}")
        if not (cancelled and verdict == "not_run"):
            counts[COUNT_OF_VERDICT[verdict]] += number
    if not 0 <= quarantined <= verdicts.get("failed", 0):
        raise ValueError(
            f"{quarantined} failures are quarantined, but only {verdicts.get('failed', 0)} failed"
        )
    counts["failed"] -= quarantined
    counts["skipped"] += quarantined
    return {**counts, "total": sum(counts.values())}


def key_part(text: str, *, otherwise: str) -> str:
    """A name without what HUD and the relay split keys at: colons, control characters, outer blanks."""
    cleaned = re.sub(r"[:\x00-\x1f\x7f\ud800-\udfff]+", "-", text).strip(" -")
    return cleaned[:255] or otherwise


def job_name_of(identity: RunIdentity, name: str = "") -> str:
    """The job's name with the lane, or the device, where it does not name them.

    GitHub's legs of a matrix have one name, and HUD takes what has one name in one run for one job.

    Args:
        identity: who the run is.
        name: what the check is called; empty takes the CI's job.
    """
    job, told = name or identity.job_name, identity.lane or identity.device
    named = f"{job} ({told})" if job and told and told not in job else job or told
    return key_part(named, otherwise="spyre-ci")


def check_run_of(identity: RunIdentity) -> str:
    """The check run of a job that was handed none: its run, its attempt, and what tells it from all others.

    Upstream's own reporter makes it of the first two; but a job may run us twice, and Jenkins counts the
    builds of each of its jobs from 1. Lanes, whose jobs may have no names, are jobs of their own.
    """
    names = (identity.run, identity.workflow, identity.job_name, identity.lane)
    digest = hashlib.blake2b("\n".join(names).encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"{identity.run_id}-{identity.run_attempt}-{digest}"


def delivery_of(identity: RunIdentity) -> str:
    """The delivery of a nightly: the PyTorch commit, or version and content hash where none is known."""
    commit = identity.pytorch_sha if COMMIT.fullmatch(identity.pytorch_sha) else identity.pytorch_commit
    told = commit or identity.pytorch_sha or identity.pytorch_version
    return key_part(told, otherwise="").replace("/", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """How a run is reported.

    Attributes:
        environ: may hold the CI's run and attempt, GitHub's check run id and the report's URL.
        dispatch: what the relay sent; None of a run that reports itself.
        own_server: whether the server is ours, so that a pull request's report may carry details too.
        job_name: what the check is called; empty takes the CI's job.
        cancelled: whether somebody ended the run.
    """

    environ: Mapping[str, str]
    dispatch: Dispatch | None = None
    own_server: bool = False
    job_name: str = ""
    cancelled: bool = False

    def job(self, identity: RunIdentity) -> RunIdentity:
        """The run as the job that sends has it: a re-run of failed jobs reports a plan of an attempt before.

        Where no CI says, it is as it was begun, else as it was planned.
        """
        here, begun = detect(self.environ, epoch_s=0), self.dispatch
        if here.name != "none" and here.run_id:
            told = {"run_id": here.run_id, "run_attempt": here.run_attempt, "url": here.url or identity.url}
            return identity.model_copy(update=told)
        if begun is not None and begun.run_id:
            return identity.model_copy(update={"run_id": begun.run_id, "run_attempt": begun.run_attempt})
        return identity

    def workflow(self, identity: RunIdentity, status: str, **more: Any) -> dict[str, Any]:
        """What both callbacks of the run's job say alike, and `more`."""
        job = self.job(identity)
        # GitHub's `job.check_run_id`, which is not in the environment of itself, and one for both callbacks.
        given = self.dispatch.check_run_id if self.dispatch else self.environ.get(CHECK_RUN_VARIABLE)
        # HUD links `<url>/job/<check_run_id>`: behind a `#` that still leads to the build of a Jenkins.
        fragment = "#" if job.provider == "jenkins" and job.url and "#" not in job.url else ""
        return {
            "status": status,
            "conclusion": None,
            # HUD declares both as strings.
            "run_id": str(job.run_id),
            "run_attempt": job.run_attempt,
            "name": key_part(job.workflow, otherwise="spyre-ci"),
            "job_name": job_name_of(job, self.job_name),
            "check_run_id": given or check_run_of(job),
            "started_at": job.started_at,
            "completed_at": None,
            "url": job.url + fragment,
            "schema_version": SCHEMA_VERSION,
            **more,
        }


def find_dispatch(run_dir: Path, environ: Mapping[str, str], event_file: Path | None) -> Dispatch | None:
    """The dispatch of a run: the one kept in its folder, else the one of this job, which is kept then.

    The check run is that of the job which begins this attempt.

    Raises:
        SpyreCiError: the file of either cannot be read.
    """
    known = dispatched.kept(run_dir)
    found = known or dispatched.read_event(environ, event_file)
    if found is None:
        return None
    job = Ways(environ=environ, dispatch=found).job(read_identity(run_dir))
    if known is not None and (known.run_id, known.run_attempt) == (job.run_id, job.run_attempt):
        return known
    given = environ.get(CHECK_RUN_VARIABLE) or check_run_of(job)
    found = replace(found, check_run_id=given, run_id=job.run_id, run_attempt=job.run_attempt)
    dispatched.keep(run_dir, found)
    return found


def read_identity(run_dir: Path) -> RunIdentity:
    """Who the run of a folder is: as its planner wrote it, else as its summary has it.

    Raises:
        SpyreCiError: neither file is there, or it does not say.
    """
    path = run_dir / IDENTITY
    if path.is_file():
        return _identity_of(read_json(path, "run"), path=path)
    path = run_dir / SUMMARY
    return _identity_of(read_json(path, "summary").get("identity"), path=path)


def begun_of(identity: RunIdentity, ways: Ways) -> dict[str, Any] | None:
    """The `in_progress` callback of a run; None where it owes none, being self-reported."""
    if ways.dispatch is None:
        return None
    return ways.dispatch.callback(ways.workflow(identity, "in_progress"))


def ended_of(summary: Mapping[str, Any], ways: Ways, *, path: Path) -> dict[str, Any]:
    """The `completed` callback of a `summary.json`, whatever the number of the run's shards.

    Raises:
        BadFileError: it does not say who the run is, or counts a verdict that is none.
    """
    identity = _identity_of(summary.get("identity"), path=path)
    try:
        details = _details_of(summary, identity)
        conclusion = _CONCLUSIONS.get(details["exit_code"], "failure")
        conclusion = "cancelled" if ways.cancelled else conclusion
        counts = count_verdicts(
            details["verdicts"], quarantined=details["quarantined"], cancelled=conclusion == "cancelled"
        )
    except KeyError as error:
        raise _bad(f"the key {error} is missing", path) from error
    except (TypeError, ValueError, AttributeError) as error:
        raise _bad(str(error), path) from error
    workflow = ways.workflow(
        identity,
        "completed",
        conclusion=conclusion,
        completed_at=identity.completed_at,
        test_results=counts,
        # A URL's user and password are left out; its query stays, which may be what signs it.
        artifact_url=re.sub(r"(?<=://)[^/?#\s]*@", "", ways.environ.get(ARTIFACT_VARIABLE, "")),
    )
    if ways.dispatch is not None:
        return ways.dispatch.callback(workflow, details if ways.own_server else None)
    sha = delivery_of(identity)
    payload = {"head_sha": sha, "repository": {"full_name": UPSTREAM_REPOSITORY}, DETAILS_KEY: details}
    return {"event_type": "nightly", "delivery_id": sha, "payload": payload, "workflow": workflow}


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
    ended = {"conclusion": conclusion, "completed_at": at, "test_results": count_verdicts({})}
    return ways.dispatch.callback(ways.workflow(identity, "completed", **ended))


def _identity_of(content: Any, *, path: Path) -> RunIdentity:
    try:
        return RunIdentity.model_validate(content)
    except ValidationError as error:
        raise _bad(f"identity.{explain(error.errors()[0])}", path) from error


def _bad(what: str, path: Path) -> SpyreCiError:
    return BadFileError(what, where=path, remedy="write it again with `spyre-ci report`")


def _details_of(summary: Mapping[str, Any], identity: RunIdentity) -> dict[str, Any]:
    """The fields of `RunDetails` that a `summary.json` fills.

    They are not validated here: what does not hold is named when the report is checked.
    """
    told: dict[str, Any] = {
        **RunDetails().model_dump(exclude={"emulated", "change_failed", "change_caught"}),
        **identity.model_dump(include={"lane", "provider", "device", "stage", "percent", "seed"}),
        "run": str(summary["run"]),
        "pytorch": identity.pytorch_version,
        "exit_code": int(summary["exit_code"]),
        "verdicts": dict(summary["verdicts"]),
        "quarantined": int((summary.get("quarantine") or {}).get("forgiven", 0)),
        "cards": summary.get("cards"),
        "in_scope": summary.get("in_scope") or None,
        "in_scope_seconds": summary.get("in_scope_s"),
        "first_failure_seconds": summary.get("first_failure_s"),
    }
    if (change := summary.get("change")) is not None:
        told |= {"change_failed": change["failed"], "change_caught": change["caught"]}
    if identity.back_end == EMULATED:
        told["emulated"] = True
    for name, share in (summary.get("shares") or {}).items():
        if name in _SHARES:
            told[_SHARES[name]] = share["count"]
            told[f"{_SHARES[name]}_seconds"] = share.get("seconds")
    return told


def report_identity(payload: Mapping[str, Any], *, repository: str) -> str:
    """One report's identity (law 6): the job's key at HUD, the run, its attempt and the status told.

    It needs no valid callback, so that a corrected report takes the place of one that could not be sent.
    """
    told = payload["workflow"]
    parts = (payload["delivery_id"], *(told[key] for key in JOB_KEYS), told["status"])
    return "/".join([repository, *map(str, parts)])


def encode(payload: Mapping[str, Any]) -> bytes:
    """The JSON that is sent.

    Raises:
        ValueError: it holds NaN or an infinity, which JSON does not know.
    """
    return json.dumps(payload, separators=(",", ":"), allow_nan=False).encode()
