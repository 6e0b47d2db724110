"""What a run, its HUD job, a shard and a test are known by, as text for pipelines (law 6)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci.hud.dispatched import kept, read_event
from ci.hud.identity import job_number, shard_key, test_key
from ci.hud.making import CHECK_RUN_VARIABLE, read_identity
from ci.hud.payload import RunIdentity, delivery_of, workflow_of
from ci.provider import detect

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


def name_run(
    run_dir: Path | None,
    *,
    environ: Mapping[str, str],
    epoch_s: float,
    event_file: Path | None = None,
    shard: int | None = None,
    test: str | None = None,
) -> dict[str, str]:
    """FIELDS as text; empty what does not apply or is not known yet.

    Args:
        run_dir: the run's folder; None takes what the environment says of the job.
        environ: the CI's variables, and the check run's id.
        epoch_s: seconds since the epoch; the run id where neither folder nor CI has one.
        event_file: the relay's dispatch, given by hand.
        shard: a shard's index.
        test: a test's canonical id.

    Raises:
        SpyreCiError: the folder or the dispatch cannot be read.
    """
    identity = _of_environ(environ, epoch_s) if run_dir is None else read_identity(run_dir)
    dispatch = None if run_dir is None else kept(run_dir)
    given = environ.get(CHECK_RUN_VARIABLE) or None
    if dispatch is not None:
        given = dispatch.check_run_id or given
    else:
        dispatch = read_event(environ, event_file)
    workflow = workflow_of(identity, status="completed", check_run_id=given)
    check_run_id = str(workflow["check_run_id"])
    values: dict[str, Any] = {
        "run_id": identity.run_id,
        "run_attempt": identity.run_attempt,
        "check_run_id": check_run_id,
        "job_id": job_number(check_run_id),
        "workflow": workflow["name"],
        "job_name": workflow["job_name"],
        "delivery_id": dispatch.delivery_id if dispatch is not None else delivery_of(identity),
        "shard_key": "" if shard is None else shard_key(identity.run_id, identity.run_attempt, shard),
        "test_key": "" if test is None else test_key(test, 0),
    }
    return {name: str(values[name]) for name in FIELDS}


def _of_environ(environ: Mapping[str, str], epoch_s: float) -> RunIdentity:
    provider = detect(environ, epoch_s=epoch_s)
    return RunIdentity.model_validate(
        {
            "run_id": provider.run_id,
            "run_attempt": provider.run_attempt,
            "job_name": provider.job_name,
            "workflow": provider.workflow,
            "started_at": epoch_s,
        }
    )
