"""What a run, its HUD job, a shard and a test are known by, as text for pipelines (law 6)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ci.core.errors import SettingsError
from ci.core.provider import detect
from ci.core.text import one_line
from ci.hud.callback import explain
from ci.hud.dispatched import kept, read_event
from ci.hud.identity import job_number, key_of_test, shard_key
from ci.hud.making import job_here, job_of, read_identity
from ci.hud.payload import RunIdentity, delivery_of

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
