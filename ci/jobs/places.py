"""Folders of this machine that stand for a cluster's volumes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from ci.jobs.here import GROUP, Here
from ci.jobs.job import Job, fetches_of
from ci.jobs.kinds import SCRATCH


@contextmanager
def folders_of(job: Job, here: Here) -> Iterator[Path]:
    """Folders that a job wants here; gives the one with its files, which is there while the block runs."""
    own_folder(here.results, here.user)
    here.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{job.name}-config-", dir=here.work) as folder:
        yield put_files(job.files, Path(folder) / "files")


def put_files(files: Mapping[str, bytes], folder: Path) -> Path:
    """Write a job's files, for any user to read; gives their folder."""
    folder.mkdir(mode=0o755, parents=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o644)
    return folder


def own_folder(path: Path, user: int) -> Path:
    """A folder that the containers' user can write, made where it is not there.

    Args:
        path: of it.
        user: number; only root can give a folder away.
    """
    path.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(path, user, GROUP)
    return path


@contextmanager
def pod_disk(job: Job, index: int, here: Here) -> Iterator[Path]:
    """The disk of a pod, which ends with it."""
    prefix = f"{job.name}-{index}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=here.work, ignore_cleanup_errors=True) as folder:
        yield make_disk(job, Path(folder) / "scratch", here)


def make_disk(job: Job, scratch: Path, here: Here) -> Path:
    """A pod's disk, with the folders that are fetched to, of which one may be mounted as the model."""
    own_folder(scratch, here.user)
    for one in fetches_of(job):
        for path in (one.to, one.at):
            own_folder(scratch / PurePosixPath(path).relative_to(SCRATCH), here.user)
    return scratch
