"""A try within the image of a commit: the same process as here, in a container of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import requests
from docker.errors import APIError
from docker.models.containers import Container

import ci
from ci.core.errors import CommandError
from ci.core.withheld import without_job_secrets
from ci.image.container import Conditions, container, follow
from ci.image.engine import check_is_here, engine
from ci.steps.context import Context

_POLL_S = 0.5


def conditions_of(context: Context, *, tree: Path, folder: Path, search: Path) -> Conditions:
    """How the container runs: no network, no secret, and nothing of this machine but what the try is of.

    Args:
        context: the outside world.
        tree: the commit's files.
        folder: of the job; it takes what the try leaves.
        search: of the whole search; leases in it keep tries from each other's cards.
    """
    project = Path(ci.__file__).parent.parent
    settings = context.settings
    ours = {
        name: value
        for name, value in without_job_secrets(context.environ).items()
        if name.startswith("SPYRE_CI__")
    }
    leases = search / "leases"
    return Conditions(
        environment={
            **ours,
            "PYTHONPATH": str(project),
            "HOME": "/tmp",  # noqa: S108  # the container's own
            "SPYRE_CI__STATE": str(folder / "state"),
            "SPYRE_CI__RUN__LEASES": str(leases),
        },
        user=f"{os.getuid()}:{os.getgid()}",
        workdir=str(folder),
        entrypoint=("python3",),
        scratch=("/tmp",),  # noqa: S108  # the container's own
        mounts={str(one): one for one in (tree, folder, leases)},
        read_only_mounts={
            str(one): one
            for one in (project / "ci", project / "test_selection", *filter(None, [settings.path]))
        },
        devices=tuple(settings.model.image.devices),
        restricted=True,
    )


def try_in_image(
    environ: Mapping[str, str],
    image: str,
    job: Path,
    conditions: Conditions,
    *,
    timeout_s: float,
    stop: threading.Event,
) -> list[str]:
    """Run a job in an image, and return the lines it printed.

    Raises:
        CommandError: no engine answers, it has no such image, the try took too long or was ended.
    """
    for one in conditions.mounts.values():
        one.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    with engine(environ) as client:
        check_is_here(client)
        command = ("-m", "ci.bisect.child", str(job))
        with container(client, image, command, conditions) as made, _ended_by(stop, made):
            ended = follow(made, timeout_s=timeout_s, echo=lines.append)
    if ended.timed_out:
        raise CommandError(f"the try took longer than {timeout_s:g} s", where=image)
    return lines


@contextmanager
def _ended_by(stop: threading.Event, made: Container) -> Iterator[None]:
    """Within, the container is killed when the search is to end."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_POLL_S):
            if stop.is_set():
                with suppress(APIError, requests.RequestException):
                    made.kill()
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
