"""`job.json` of a run folder: which job a run became, so that watching and collecting find it."""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass
from pathlib import Path

from ci.core.errors import BadFileError, MissingInputError, PlanMismatchError, SpyreCiError
from ci.core.text import counted
from ci.jobs.job import Job
from ci.steps.folder import RunFolder, find_run
from test_selection.files import convert, read_json, write_json

KIND = "job"
FILE = "job.json"
# The namespace of a job that ran on this machine, of which no cluster knows.
HERE = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job that was submitted.

    Attributes:
        name: of the job.
        namespace: it is in; HERE if it ran on this machine.
        kind: of the spec.
        run: as the store knows it.
        image: its pods run in.
        fingerprint: of the plan; empty for other kinds than tests.
        store: where pods put what they have, as they see it: a folder or s3://…; empty if there is none.
        shards: of each pod, by index; empty for other kinds than tests.
    """

    name: str
    namespace: str
    kind: str
    run: str
    image: str
    fingerprint: str
    store: str
    shards: tuple[tuple[int, ...], ...]


def record_of(job: Job, *, namespace: str | None = None) -> JobRecord:
    """The record of a job."""
    return JobRecord(
        name=job.name,
        namespace=job.namespace if namespace is None else namespace,
        kind=job.spec.kind,
        run=job.run,
        image=job.image,
        fingerprint=job.fingerprint,
        store=job.store,
        shards=job.shards,
    )


def write_record(folder: Path, record: JobRecord) -> None:
    """Write `job.json` into a run folder."""
    write_json(folder / FILE, KIND, asdict(record))


def read_record(folder: Path) -> JobRecord:
    """Read `job.json` of a run folder.

    Raises:
        MissingInputError: the run was never submitted as a job.
        BadFileError: a key is missing or of the wrong kind.
    """
    path = folder / FILE
    return convert(read_json(path, KIND), JobRecord, where=path, remedy="submit the run again")


def find_job_folder(runs: Path, named: str) -> RunFolder:
    """The run folder of a job, by the run's folder or id, `latest`, or the job's name.

    Raises:
        MissingInputError: there is none.
    """
    try:
        return find_run(runs, named, holding=FILE)
    except MissingInputError:
        for path in sorted(runs.glob(f"*/{FILE}"), reverse=True):
            # One that cannot be read hides no other.
            with contextlib.suppress(SpyreCiError, OSError):
                if read_record(path.parent).name == named:
                    return RunFolder(path=path.parent)
        raise


def refuse_another_deal(folder: Path, record: JobRecord) -> None:
    """Refuse to submit a run of tests again with another image, plan or number of pods.

    Results of two would be taken for those of one.

    Args:
        folder: the run's.
        record: of the job that is to be submitted.

    Raises:
        PlanMismatchError: it was submitted otherwise before.
    """
    try:
        before = read_record(folder)
    except (MissingInputError, BadFileError):
        return  # it is written anew
    if record.kind != "tests" or before.run != record.run or before.namespace == HERE:
        return
    changed = []
    if before.image != record.image:
        changed.append(f"its image was {before.image or 'none'}, now {record.image}")
    if before.fingerprint != record.fingerprint:
        changed.append("its plan has changed")
    elif before.shards != record.shards:
        pods = counted(len(before.shards), "pod")
        changed.append(f"its shards were split among {pods}, now differently among {len(record.shards):,}")
    if changed:
        raise PlanMismatchError(
            f"{record.run} was submitted before as {before.name}, and differs: {'; '.join(changed)}",
            where=folder / FILE,
            remedy="collect, select and plan a new run; or, if no pod of it ever started, remove this file",
        )
