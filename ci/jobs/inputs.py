"""Putting a job's slices into its store, where they are too many for ConfigMaps."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ci.core.errors import UsageError
from ci.core.object_store import Bucket
from ci.jobs.job import Job
from ci.jobs.layout import INPUTS
from test_selection.files import atomic_writer

# Slices are small, so that the endpoint's answers are what takes time.
AT_ONCE = 16


def put_inputs(job: Job, seen_at: Path | None) -> str:
    """Put the slices where pods read them; returns where that is.

    Args:
        job: whose slices go by its store.
        seen_at: the store's volume as a folder here; None: it is not mounted here.

    Raises:
        UsageError: the store is a volume, and nobody says where it is seen.
        CommandError: the bucket refuses.
    """
    store = job.spec.store
    if store is not None and store.bucket is not None:
        bucket = Bucket(store.bucket, where="store.bucket")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            put = [
                pool.submit(bucket.put, f"{job.run}/{INPUTS}/{name}", content)
                for name, content in job.files.items()
            ]
            for one in put:
                one.result()
        return bucket.address(f"{job.run}/{INPUTS}")
    if seen_at is None:
        size = sum(map(len, job.files.values()))
        raise UsageError(
            f"the {len(job.files):,} slices have {size:,} bytes, more than ConfigMaps take",
            where="--store",
            remedy="name the folder where the store's volume is mounted here, or give the spec store.bucket",
        )
    folder = seen_at / job.run / INPUTS
    for name, content in job.files.items():
        with atomic_writer(folder / name) as stream:
            stream.write(content)
    return str(folder)
