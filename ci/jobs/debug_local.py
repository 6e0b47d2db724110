"""Looking into a job on this machine: its container with a shell or a notebook.

It is made by the engine's API, which secrets go through, and entered as `ci.image.shell` says.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ci.errors import CommandError, UsageError
from ci.image.container import Conditions, create
from ci.image.engine import check_is_here, engine, fetch
from ci.image.shell import find_client
from ci.jobs.here import Here, conditions_of, images_of, made_ready, secrets_of
from ci.jobs.job import Job
from ci.jobs.kinds import NOTEBOOK_PORT
from ci.jobs.local import Local
from ci.jobs.places import make_disk, own_folder, put_files

# An image of others may have no bash.
_SHELL = ("/bin/sh", "-c", "command -v bash >/dev/null && exec bash; exec sh")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a job is looked into.

    Attributes:
        index: whose environment the container has.
        notebook: the image's notebook in place of a shell.
        terminal: whether one is there.
    """

    index: int = 0
    notebook: bool = False
    terminal: bool = True


def open_here(
    job: Job,
    here: Here,
    look: Look,
    *,
    echo: Callable[[str], None],
    which: Callable[[str], str | None] = shutil.which,
    clock: Callable[[], float] = time.monotonic,
) -> list[str]:
    """Make a job's container, with what it fetches; the command that enters it, which removes it at its end.

    Args:
        job: what is looked into.
        here: this machine; its disk stays below `work` until it is looked into again.
        look: how.
        echo: takes lines for people.
        which: finds a program.
        clock: seconds, monotonic.

    Raises:
        UsageError: the job has no such pod.
        CommandError: what it wants cannot be fetched, or the engine's own command is not installed.
        SpyreCiError: the engine refuses, there is no such image, or the job cannot run here.
    """
    if not 0 <= look.index < job.pods:
        raise UsageError(
            f"there is no pod {look.index}", where="--index", remedy=f"give one of 0 to {job.pods - 1}"
        )
    words = find_client(here.environ, which)
    job, here = made_ready(job, here)
    folder = here.work / f"{job.name}-debug"
    local = Local(
        job=job,
        here=here,
        configs=_configs(job, folder),
        secrets=list(secrets_of(job, here.environ).values()),
        echo=echo,
        clock=clock,
    )
    own_folder(here.results, here.user)
    scratch = make_disk(job, folder / "scratch", here)
    main = conditions_of(job, look.index, here, scratch=scratch, configs=local.configs)
    with engine(here.environ) as client:
        check_is_here(client)
        for image in images_of(job):
            fetch(client, image)
        if not local.fetch(client, look.index, main, clock() + job.deadline_s):
            raise CommandError(
                "what the job fetches cannot be had",
                where=job.name,
                remedy="see what was said above, and mend the spec's source",
            )
        if look.notebook:
            echo(f"http://127.0.0.1:{here.port or NOTEBOOK_PORT} leads to it once it listens")
        made = create(client, job.image, ["notebook"] if look.notebook else [], entered(main, here, look))
    echo(f"what is at /scratch stays in {scratch}")
    return [*words, "start", "--attach", "--interactive", str(made.id)]


def entered(main: Conditions, here: Here, look: Look) -> Conditions:
    """How the container runs that is entered, by how the job's own does; pure."""
    given = replace(main, interactive=True, terminal=look.terminal, entrypoint=_SHELL)
    if not look.notebook:
        return given
    ports = {} if here.network == "host" else {here.port or NOTEBOOK_PORT: NOTEBOOK_PORT}
    # A role of the image's own entry.
    return replace(given, entrypoint=None, ports=ports)


def _configs(job: Job, folder: Path) -> Path:
    """The job's files, as they are now."""
    configs = folder / "config"
    shutil.rmtree(configs, ignore_errors=True)
    return put_files(job.files, configs)
