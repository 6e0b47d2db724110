"""What `spyre-ci job local` does with a job that is ready."""

from __future__ import annotations

from collections.abc import Callable

from ci.core.errors import EXIT_OK
from ci.jobs.here import Here
from ci.jobs.job import Job, mounts_of
from ci.jobs.local import run_here


def local(job: Job, here: Here, *, echo: Callable[[str], None]) -> int:
    """Run a job on the engine here, and say how each pod ended; its exit code.

    Args:
        job: ready.
        here: this machine.
        echo: takes lines for people.

    Raises:
        SpyreCiError: see `ci.jobs.local.run_here`.
    """
    ends, code = run_here(job, here, echo=echo)
    for one in ends:
        how = "done" if one.code == EXIT_OK else f"ended with code {one.code}"
        echo(f"pod {one.index}: {how}" + (f" after {one.pods} pods" if one.pods > 1 else ""))
    if "results" in mounts_of(job):
        echo(f"what they left is in {here.results}")
    return code
