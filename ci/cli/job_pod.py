"""`spyre-ci job pod`: what a pod of a job of tests runs; the verb `run` on its slice."""

from __future__ import annotations

import codecs
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from ci.cli import options
from ci.errors import RunInUseError
from ci.jobs.kinds import SCRATCH
from ci.jobs.pod import StoreError, command_of, environment_of, exit_code_of, place_of
from ci.jobs.slices import open_slice
from ci.runner.run_lock import run_lock
from ci.tending import tend_command

# How long a lock may stand whose holder's node is gone; NFS gives a lease of 90 seconds.
LOCK_S = 180.0
# A run that was told to end accounts for what it did; a cluster kills it long before.
ENDING_S = 600.0


def pod(
    ctx: typer.Context,
    source: options.Source = None,
    scratch: Annotated[Path, typer.Option(help="The pod's own disk.")] = Path(SCRATCH),
) -> None:
    """Run a pod's shards of a job, or go on where an earlier pod of its index was lost.

    Which they are say JOB_COMPLETION_INDEX and the variables SPYRE_CI_JOB_….

    Example: spyre-ci job pod
    """
    context = options.make_context(ctx, {})
    place = place_of(os.environ)
    folder = place.folder(scratch)
    folder.mkdir(parents=True, exist_ok=True)
    wait_for_lock(folder, time.monotonic, time.sleep)
    opened = open_slice(Path(place.inputs), place.index, folder, share=place.share)
    resumes = any((folder / "journal").glob("*.jsonl"))
    context.say(
        f"pod {place.index} of {opened.pods:,}, run {opened.run}: {len(opened.shards):,} shards on "
        f"{opened.cards:,} cards" + (", an earlier pod's work goes on" if resumes else "")
    )
    with _log(folder, place.index) as output:
        code, interrupts = tend_command(
            command_of(opened, folder, resumes=resumes, source=source),
            output=output,
            env=environment_of(os.environ, place),
            ending_s=ENDING_S,
            orphans=os.getpid() == 1,
        )
    raise typer.Exit(exit_code_of(code, interrupts))


def wait_for_lock(folder: Path, clock: Callable[[], float], sleep: Callable[[float], object]) -> None:
    """Wait until nobody works in a pod's run folder: a node that is lost takes a while to lose its lock.

    Raises:
        StoreError: somebody still does.
    """
    end = clock() + LOCK_S
    while True:
        try:
            with run_lock(folder, alone=True):
                return
        except RunInUseError as error:
            if clock() >= end:
                raise StoreError(
                    f"another pod of this index works there still: {error.what}",
                    where=folder,
                    remedy="the next pod of the index takes it up",
                ) from error
            sleep(1.0)


@contextlib.contextmanager
def _log(folder: Path, index: int) -> Iterator[Callable[[bytes], object]]:
    """What the run prints goes to the pod's log, and to the store beside its journals."""
    path = folder / "logs" / f"pod-{index}.log"
    path.parent.mkdir(exist_ok=True)
    text = codecs.getincrementaldecoder("utf-8")("replace")
    with path.open("ab", buffering=0) as stream:

        def output(data: bytes) -> None:
            with contextlib.suppress(OSError):  # a full disk is told of by the run
                stream.write(data)
            sys.stdout.write(text.decode(data))
            sys.stdout.flush()

        yield output
