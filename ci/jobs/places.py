"""Folders of this machine that stand for a cluster's volumes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ci.jobs.here import Here
from ci.jobs.job import Job
from ci.jobs.kinds import INPUTS, SCRATCH


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
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o644)
    return folder


def own_folder(path: Path, user: int) -> Path:
    """A folder that the containers' user can write, made where it is not there.

    Args:
        path: of it.
        user: number; only root can give a folder away.
    """
    path.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        os.chown(path, user, 0)
    return path


def scratch_in(folder: Path, user: int) -> Path:
    """A pod's disk with the folder its inputs are put in."""
    scratch = own_folder(folder / "scratch", user)
    own_folder(scratch / Path(INPUTS).relative_to(SCRATCH), user)
    return scratch
