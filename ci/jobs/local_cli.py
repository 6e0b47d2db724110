"""What `spyre-ci job local` and `spyre-ci job debug` do with a job that is ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from ci.errors import EXIT_OK
from ci.image.shell import become
from ci.jobs.debug import debug_manifest, how_to_enter
from ci.jobs.debug_local import Look, open_here
from ci.jobs.here import Here
from ci.jobs.job import Job, mounts_of
from ci.jobs.local import run_here

_TEMPLATED = frozenset({"Job", "Deployment"})
_BESIDE = frozenset({"ConfigMap", "Secret"})


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


def debug_local(job: Job, here: Here, look: Look, *, echo: Callable[[str], None]) -> NoReturn:
    """Enter a job's container on the engine here; this process becomes the engine's own command.

    Raises:
        SpyreCiError: see `ci.jobs.debug_local.open_here`.
    """
    become(open_here(job, here, look, echo=echo))


def debug(
    manifests: Sequence[Mapping[str, Any]],
    *,
    seconds: int,
    index: int = 0,
    notebook: bool = False,
) -> tuple[list[Mapping[str, Any]], list[str]]:
    """What is sent to a cluster to look into a job, what the pod reads first, and how it is entered.

    Args:
        manifests: of the job under a name of its own; see `ci.jobs.debug.apart`.
        seconds: after which the pod is ended.
        index: whose environment it has.
        notebook: a notebook in place of a shell.

    Raises:
        UsageError: there is no such index, or no time.
    """
    (own,) = (one for one in manifests if one["kind"] in _TEMPLATED)
    pod = debug_manifest(own, seconds=seconds, index=index, notebook=notebook)
    return [*(one for one in manifests if one["kind"] in _BESIDE), pod], how_to_enter(pod, own)
