"""From a spec's file to a job that is ready: its run found, its shards dealt, its files read."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml
from pydantic import ValidationError

from ci.core.errors import SettingsError, UsageError
from ci.core.text import plain
from ci.core.workflow_commands import defused
from ci.jobs.again import check_run, once_more
from ci.jobs.job import Job
from ci.jobs.kinds import check_contract
from ci.jobs.labels import job_name
from ci.jobs.parcels import too_large
from ci.jobs.parts import SecretRef
from ci.jobs.slices import make_slices
from ci.jobs.spec import Kind, Spec, Tests, read_spec
from ci.jobs.token import with_token
from ci.jobs.tracking import Tracker
from ci.main_job.cli_matrix import Target, legs_of, worded
from ci.record.identity import RunIdentity, read_identity
from ci.steps.context import Context
from ci.steps.folder import RunFolder, find_plan
from test_selection.ci_jobs import CiJob
from test_selection.files import write_text
from test_selection.plan import read_plan

DAY_S = 24 * 3600
MINUTE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a user says besides the spec.

    Attributes:
        run: id of the run; None: the plan's, or, for kinds that have none, a new one.
        begins: whether a plan of another run is run once more, as a run of this id.
        plan: the run's folder or id, over the spec's.
        parameters: NAME=VALUE, over those of the spec.
        namespace: of the cluster.
        commit: of the checkout, with `dirty`.
        dirty: whether it had changes nobody committed.
    """

    run: str | None = None
    begins: bool = False
    plan: str | None = None
    parameters: Sequence[str] = ()
    namespace: str = "default"
    commit: str = ""
    dirty: bool = False


def prepare(context: Context, path: Path, asked: Asked) -> tuple[Job, RunFolder]:
    """A job of a spec's file, and the folder of its run.

    Args:
        context: the outside world.
        path: of the spec.
        asked: what was said besides.

    Raises:
        SpyreCiError: the spec or what it names cannot be taken; nothing was sent anywhere.
    """
    check_run(asked.run)
    spec = with_parameters(read_spec(path), asked.parameters)
    check_contract(spec, path)
    if spec.kind == "tests":
        return _of_tests(context, spec, asked)
    if asked.plan is not None:
        raise UsageError(f"--plan is {asked.plan}, and kind {spec.kind} has none", remedy="leave it out")
    run = asked.run or _new_run(spec.kind, context.clock())
    folder = RunFolder(path=context.runs / run)
    files = _configs(spec, path.resolve().parent)
    minutes = spec.deadline_minutes
    deadline_s = DAY_S if minutes is None else minutes * MINUTE_S
    return _job(spec, run, asked, pods=1, files=files, deadline_s=deadline_s), folder


def _of_tests(context: Context, spec: Spec, asked: Asked) -> tuple[Job, RunFolder]:
    """The job of a plan: a pod serves the shards of a leg."""
    section = spec.tests or Tests()
    folder = RunFolder(path=find_plan(context.runs, asked.plan or section.plan).parent)
    run = run_of(read_identity(folder.path))
    if asked.run not in (None, run):
        if not asked.begins:
            raise UsageError(
                f"--run is {asked.run}, and the plan is of {run}",
                remedy="leave --run out: the plan says it",
            )
        folder = once_more(context, folder, str(asked.run))
        run = run_of(read_identity(folder.path))
    plan = read_plan(folder.plan)
    cards = max(1, spec.resources.cards)
    settings = context.settings.model.matrix.model_copy(update={"runner_cards": [cards]})
    legs = legs_of(plan, settings, Target.INDEXED_JOB, cards, section.pods)
    words, _ = worded(legs, settings, Target.INDEXED_JOB)
    pod_s = int(words["activeDeadlineSeconds"])
    minutes = spec.deadline_minutes
    # Each try may take its time, and a pod may have waited for its cards.
    whole_s = DAY_S + pod_s * (spec.retries + 1) if minutes is None else minutes * MINUTE_S
    files = make_slices(folder.path, legs)
    job = _job(
        spec,
        run,
        asked,
        pods=len(legs),
        files=files,
        deadline_s=whole_s,
        pod_deadline_s=min(pod_s, whole_s),
        fingerprint=plan.fingerprint,
        legs=legs,
        by_volume=too_large(files),
    )
    return job, folder


def _job(
    spec: Spec,
    run: str,
    asked: Asked,
    *,
    pods: int,
    files: Mapping[str, bytes],
    deadline_s: int,
    pod_deadline_s: int = 0,
    fingerprint: str = "",
    legs: Sequence[CiJob] = (),
    by_volume: bool = False,
) -> Job:
    job = Job(
        spec=spec,
        name=job_name(spec.name or spec.kind, run),
        run=run,
        # A name as the spec has it; what is built is known once it was built.
        image=spec.image.name or "",
        namespace=asked.namespace,
        pods=pods,
        deadline_s=deadline_s,
        pod_deadline_s=pod_deadline_s,
        shards=tuple(tuple(leg.shards) for leg in legs),
        commit=asked.commit,
        dirty=asked.dirty,
        fingerprint=fingerprint,
        files=files,
        by_volume=by_volume,
    )
    return with_token(job)


def run_of(identity: RunIdentity) -> str:
    """What a run is known by on a cluster and in a store: a folder may have the same name every night."""
    return f"{identity.run}-{identity.run_id}-{identity.run_attempt}"


def with_parameters(spec: Spec, given: Sequence[str]) -> Spec:
    """A spec with parameters that were given as NAME=VALUE.

    Raises:
        UsageError: one is no NAME=VALUE, or its name is none.
    """
    if not given:
        return spec
    found = dict(spec.parameters)
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--param is {text!r:.100}", remedy="give NAME=VALUE, such as BATCH=32")
        if isinstance(found.get(name), SecretRef):
            raise UsageError(
                f"--param gives {name}, which the spec takes from a secret", remedy="leave it to the secret"
            )
        found[name] = value
    try:
        return Spec.model_validate({**spec.model_dump(exclude_unset=True), "parameters": found})
    except ValidationError as error:
        told = error.errors()[0]
        raise UsageError(
            f"--param gives {'.'.join(str(one) for one in told['loc'][1:2])!r:.100}: {told['msg']}",
            remedy="give NAME=VALUE, such as BATCH=32; names are of capitals, digits and _",
        ) from None


def _configs(spec: Spec, base: Path) -> dict[str, bytes]:
    """The configuration files, by their paths below the spec's folder.

    Raises:
        SettingsError: one is missing, or leads out of that folder.
    """
    found: dict[str, bytes] = {}
    for given in spec.configs:
        path = (base / given).resolve()
        if not path.is_relative_to(base) or not path.is_file():
            raise SettingsError(
                f"the config file {given!r} is not below the spec's folder", where=base, remedy="put it there"
            )
        found[given] = path.read_bytes()
    return found


def save_spec(path: Path, job: Job, folder: RunFolder) -> None:
    """Write the spec as it was sent: the image by what it is, the run by its id, parameters with it."""
    content = job.spec.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    content["image"] = {
        "name": job.image,
        **({"pull_secrets": job.spec.image.pull_secrets} if job.spec.image.pull_secrets else {}),
    }
    if job.spec.kind == "tests":
        content["tests"] = {**content.get("tests", {}), "plan": folder.run}
    write_text(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def _new_run(kind: Kind, epoch_s: float) -> str:
    stamp = datetime.fromtimestamp(math.floor(epoch_s), UTC).strftime("%Y%m%d-%H%M%S")
    return f"{stamp}-{kind}-{secrets.token_hex(2)}"


def tracker_of(context: Context, folder: RunFolder) -> Tracker:
    """The tracker of a run folder; it does nothing where the spec tracks nothing."""
    return Tracker(
        folder=folder.path,
        environ=os.environ,
        clock=context.clock,
        warn=lambda line: context.say(defused(plain(line))),
    )
