"""From a spec's file to a job: its run found, its shards grouped into pods, its files read."""

from __future__ import annotations

import math
import re
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ci.core.errors import SettingsError, UsageError
from ci.core.git import changes, git, hidden_changes, parts
from ci.core.text import counted, listed, one_line
from ci.jobs.job import Job
from ci.jobs.labels import job_name
from ci.jobs.plan_chunks import chunks_of, pack_plan
from ci.jobs.record import FILE as RECORD_FILE
from ci.jobs.spec import Notebook, SecretRef, Spec, Tests, read_spec
from ci.main_job.cli_matrix import Target, legs_of, worded
from ci.record.identity import FILE as IDENTITY_FILE
from ci.record.identity import RunIdentity, read_identity, write_identity
from ci.report.results import RESULTS_FILE, SUMMARY_FILE
from ci.report.write import MARKDOWN_FILE, PAGE_FILE
from ci.steps.context import Context
from ci.steps.folder import RunFolder, find_plan
from test_selection.plan import read_plan

DAY_S = 24 * 3600
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
# Of an earlier run of the same plan.
_ITS_OWN = {RECORD_FILE, IDENTITY_FILE, RESULTS_FILE, SUMMARY_FILE, MARKDOWN_FILE, PAGE_FILE}
SHOWN_FILES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a user says besides the spec.

    Attributes:
        run: id of the run; None: the plan's, or, for kinds that have none, a new one.
        begins: a plan of another run is run once more, as a run of this id.
        plan: the run's folder or id, over the spec's.
        parameters: NAME=VALUE, over those of the spec.
        namespace: of the cluster.
        commit: of the checkout; empty if it is no repository.
        dirty: the checkout holds what nobody committed.
    """

    run: str | None = None
    begins: bool = False
    plan: str | None = None
    parameters: Sequence[str] = ()
    namespace: str = "default"
    commit: str = ""
    dirty: bool = False


def prepare(context: Context, path: Path, asked: Asked) -> tuple[Job, RunFolder]:
    """The job of a spec's file, and the folder of its run.

    Args:
        context: the outside world.
        path: of the spec.
        asked: what was said besides.

    Raises:
        SpyreCiError: the spec or what it names cannot be taken; nothing was sent anywhere.
    """
    if asked.run is not None and not _ID.fullmatch(asked.run):
        raise UsageError(
            f"--run cannot be {asked.run!r:.100}", remedy="use letters, digits, dots, - and _, at most 128"
        )
    spec = with_parameters(read_spec(path), asked.parameters)
    folder, more = (
        _of_tests(context, spec, asked) if spec.kind == "tests" else _of_a_command(context, spec, path, asked)
    )
    run = more.pop("run")
    job = Job(
        spec=spec,
        name=job_name(spec.name or spec.kind, run),
        run=run,
        # As the spec has it; the name of one that is built is known once it was built.
        image=spec.image.name or "",
        namespace=asked.namespace,
        commit=asked.commit,
        dirty=asked.dirty,
        **more,
    )
    if spec.kind == "notebook" and not (spec.notebook and spec.notebook.token):
        named = (spec.notebook or Notebook()).model_copy(update={"token": token_secret(job)})
        job = replace(job, spec=spec.model_copy(update={"notebook": named}))
    return job, folder


def _of_a_command(context: Context, spec: Spec, path: Path, asked: Asked) -> tuple[RunFolder, dict[str, Any]]:
    if asked.plan is not None:
        raise UsageError(f"--plan is {asked.plan}, but kind {spec.kind} has no plan", remedy="leave it out")
    stamp = datetime.fromtimestamp(math.floor(context.clock()), UTC).strftime("%Y%m%d-%H%M%S")
    run = asked.run or f"{stamp}-{spec.kind}-{secrets.token_hex(2)}"
    deadline_s = DAY_S if spec.deadline_minutes is None else spec.deadline_minutes * 60
    more = {"run": run, "pods": 1, "files": _configs(spec, path.resolve().parent), "deadline_s": deadline_s}
    return RunFolder(path=context.runs / run), more


def _of_tests(context: Context, spec: Spec, asked: Asked) -> tuple[RunFolder, dict[str, Any]]:
    """The run of a plan: each pod serves the shards of a leg."""
    section = spec.tests or Tests()
    folder = RunFolder(path=find_plan(context.runs, asked.plan or section.plan).parent)
    run = run_of(read_identity(folder.path))
    if asked.run not in (None, run):
        if not asked.begins:
            raise UsageError(
                f"--run is {asked.run}, but the plan belongs to {run}",
                remedy="leave --run out: the plan names the run",
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
    whole_s = DAY_S + pod_s * (spec.retries + 1) if minutes is None else minutes * 60
    packed = pack_plan(folder.path, legs)
    in_bucket = spec.store is not None and spec.store.bucket is not None
    return folder, {
        "run": run,
        "pods": len(legs),
        "files": {} if in_bucket else chunks_of(packed),
        "plan": packed if in_bucket else b"",
        "deadline_s": whole_s,
        "pod_deadline_s": min(pod_s, whole_s),
        "fingerprint": plan.fingerprint,
        "shards": tuple(tuple(leg.shards) for leg in legs),
    }


def once_more(context: Context, planned: RunFolder, run: str) -> RunFolder:
    """The folder of another run of a plan, with an identity of its own; made once (law 6).

    Args:
        context: the outside world.
        planned: the folder with the plan; itself if it is this run's.
        run: the id.
    """
    folder = RunFolder(path=context.runs / run)
    if run == planned.run or folder.plan.is_file():
        return planned if run == planned.run else folder
    if folder.path.exists():
        raise UsageError(
            "exists without a plan: another run has this name",
            where=folder.path,
            remedy="give --run another id, or remove the folder",
        )
    context.runs.mkdir(parents=True, exist_ok=True)
    now = context.clock()
    identity = replace(read_identity(planned.path), run=run, run_id=max(int(now), 1), started_at=now)
    # Whole or not at all: a plan without its identity would be somebody else's run.
    with tempfile.TemporaryDirectory(prefix=f".{run}-", dir=context.runs) as made:
        half = Path(made) / "run"
        half.mkdir()
        for path in planned.path.iterdir():
            if path.name not in _ITS_OWN and path.is_file():
                shutil.copyfile(path, half / path.name)
        write_identity(half, identity)
        if not folder.path.exists():
            half.rename(folder.path)
    return folder


def run_of(identity: RunIdentity) -> str:
    """What a run is called on a cluster and in a store: a folder may have the same name every night."""
    return f"{identity.run}-{identity.run_id}-{identity.run_attempt}"


def token_secret(job: Job) -> str:
    """The name of the secret that a submit makes for a notebook."""
    return f"{job.name}-token"


def with_parameters(spec: Spec, given: Sequence[str]) -> Spec:
    """A spec with parameters that were given as NAME=VALUE.

    Raises:
        UsageError: one is no NAME=VALUE, or its name is none.
    """
    found = dict(spec.parameters)
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--param {text!r:.100} is not NAME=VALUE", remedy="give one, such as BATCH=32")
        if isinstance(found.get(name), SecretRef):
            raise UsageError(
                f"--param sets {name}, which the spec takes from a secret", remedy="leave this --param out"
            )
        found[name] = value
    if not given:
        return spec
    try:
        return Spec.model_validate({**spec.model_dump(exclude_unset=True), "parameters": found})
    except ValidationError as error:
        told = error.errors()[0]
        raise UsageError(
            f"--param sets {'.'.join(str(one) for one in told['loc'][1:2])!r:.100}: {told['msg']}",
            remedy="give NAME=VALUE, such as BATCH=32; names consist of capitals, digits and _",
        ) from None


def _configs(spec: Spec, base: Path) -> Mapping[str, bytes]:
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


def at_checkout(asked: Asked, folder: Path, *, allow_dirty: bool) -> Asked:
    """What was asked for, with the commit of a checkout.

    Args:
        asked: what was asked for.
        folder: in the checkout.
        allow_dirty: take changes that nobody committed; the job is then marked with them.

    Raises:
        UsageError: there are changes, and they are not allowed.
        CommandError: git did not answer.
    """
    if not any((one / ".git").exists() for one in (folder.absolute(), *folder.absolute().parents)):
        return asked
    commit = git(folder, "rev-parse", "HEAD").strip()
    changed, untracked = changes(git(folder, "status", "--porcelain=v2", "-z", "--no-renames"))
    hidden = [f"{part.below}{name}" for part in parts(folder) for name in hidden_changes(part)]
    found = [*changed, *hidden, *untracked]
    if found and not allow_dirty:
        shown = listed([one_line(name) for name in found], SHOWN_FILES)
        raise UsageError(
            f"{counted(len(found), 'file')} of the checkout differ from {commit[:12]}: {shown}",
            where=folder,
            remedy="commit them, or give --allow-dirty, which marks the job as dirty",
        )
    return replace(asked, commit=commit, dirty=bool(found))
