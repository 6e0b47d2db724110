"""`spyre-ci job pod`: what a pod of a job of tests runs; the verb `run` on its slice."""

from __future__ import annotations

import codecs
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ci.core.errors import EXIT_INCOMPLETE, EXIT_TEST_FAILED, CommandError, RunInUseError
from ci.core.interrupts import noted
from ci.core.locks import run_lock
from ci.core.object_store import SCHEME, Bucket
from ci.core.operating_system import boot_id, host_name
from ci.core.process import tend_command
from ci.core.text import counted
from ci.jobs.job import IMAGE_VARIABLE, INPUT_VARIABLE, STORE_VARIABLE
from ci.jobs.kinds import SCRATCH
from ci.jobs.mirror import LOOK_S, Mirror, Sender, look_s
from ci.jobs.pod import (
    WHOLE,
    Place,
    StoreError,
    close_process,
    command_of,
    environment_of,
    exit_code_of,
    fetch_earlier,
    mark_doubts,
    place_of,
    refuse_another_image,
)
from ci.jobs.slices import Opened, open_slice, slice_name
from ci.record.journal import Journal, read_journals
from ci.record.verdict import NO_OUTCOME, Verdict
from ci.report.reconcile import reconcile
from ci.runner.resume import MOST_LOSSES, pending_retries, write_off
from ci.steps import options
from ci.steps.context import Context
from test_selection.plan import Plan, read_plan

# How long a lock may stand whose holder's node is gone; NFS gives a lease of 90 seconds.
LOCK_S = 180.0
# A run that was told to end accounts for what it did; a cluster kills it long before.
ENDING_S = 600.0
# What is left may take so long to send; less where the pod was told to end, which has 30 seconds in all.
FLUSH_S, FLUSH_ENDING_S = 120.0, 15.0


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
    close_process()  # tests are of the same user
    if source is None and context.settings.origins.get("pytorch.source") == "environment":
        source = context.settings.model.pytorch.source  # where the image has it, not where it was planned
    folder = place.folder(scratch)
    folder.mkdir(parents=True, exist_ok=True)
    wait_for_lock(folder, time.monotonic, time.sleep)
    inputs = _inputs(place, scratch)
    if place.by_bucket:
        code = _run_by_bucket(context, place, inputs, folder, source)
    else:
        refuse_another_image(folder, os.environ.get(IMAGE_VARIABLE, ""))
        opened = open_slice(inputs, place.index, folder, share=place.share, source=source)
        code = _run(context, place, opened, folder, source)[0]
    raise typer.Exit(code)


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


def _inputs(place: Place, scratch: Path) -> Path:
    """The folder of slices; one of a bucket is fetched."""
    if not place.inputs.startswith(SCHEME):
        return Path(place.inputs)
    name, into = slice_name(place.index), scratch / place.run / "inputs"
    with _store_away(place.inputs):
        Bucket(place.inputs, where=INPUT_VARIABLE).download(name, into / name)
    return into


def _run_by_bucket(context: Context, place: Place, inputs: Path, folder: Path, source: str | None) -> int:
    """Run with a bucket that takes journals and logs as they grow."""
    with _store_away(place.store):
        bucket = Bucket(place.store, where=STORE_VARIABLE)
        settled, cut_off = fetch_earlier(bucket, place, folder, context.say)
    refuse_another_image(folder, os.environ.get(IMAGE_VARIABLE, ""))
    opened = open_slice(inputs, place.index, folder, share=False, source=source)
    if cut_off:
        mark_doubts(
            folder, read_plan(folder / "plan.json"), opened.shards, boot=boot_id(), host=host_name(),
            clock=context.clock,
        )  # fmt: skip

    def put(name: str, data: bytes) -> None:
        bucket.put(f"{place.below}/{name}", data)

    # Few pods go on, and where one of them is lost again it is worth more to know at which test.
    mirror = Mirror(Sender(put, folder, settled), context.say, LOOK_S if cut_off else look_s(opened.pods))
    code, interrupted = _run(context, place, opened, folder, source)
    with noted():  # whoever ends the pod now has what is left sent all the same
        missing = mirror.finish(FLUSH_ENDING_S if interrupted else FLUSH_S)
    if missing:
        context.say(missing)
        return EXIT_INCOMPLETE
    with contextlib.suppress(CommandError):  # without it, more is marked than needs to be
        put(WHOLE, b"")
    return code


def _run(
    context: Context, place: Place, opened: Opened, folder: Path, source: str | None
) -> tuple[int, bool]:
    """The pod's exit code, and whether it was told to end."""
    resumes = any((folder / "journal").glob("*.jsonl"))
    context.say(
        f"pod {place.index} of {opened.pods:,}, run {opened.run}: {len(opened.shards):,} shards on "
        f"{opened.cards:,} cards" + (", going on with an earlier pod's work" if resumes else "")
    )
    plan = _part(folder, opened)
    if resumes and not place.share:  # else another pod may have run it meanwhile
        _write_off(context, folder, plan)
    with _log(folder, place.index) as output:
        code, interrupts = tend_command(
            command_of(opened, folder, resumes=resumes, source=source),
            output=output,
            env=environment_of(os.environ, place),
            ending_s=ENDING_S,
            orphans=os.getpid() == 1,
        )
    code = exit_code_of(code, interrupts)
    if code == EXIT_INCOMPLETE and not place.share and _no_other_pod_helps(context, folder, plan):
        context.say("no other pod is needed: nothing is left to run, and what is missing is a card's fault")
        code = EXIT_TEST_FAILED
    return code, bool(interrupts)


def _part(folder: Path, opened: Opened) -> Plan:
    """The plan of the pod's own shards."""
    plan = read_plan(folder / "plan.json")
    return replace(plan, shards=tuple(shard for shard in plan.shards if shard.index in opened.shards))


def _write_off(context: Context, folder: Path, plan: Plan) -> None:
    """Settle what took earlier pods of this index down: else no pod would ever come to the rest."""
    gone = write_off(
        folder, plan, read_journals(folder), boot=boot_id(), host=host_name(), clock=context.clock
    )
    if gone:
        context.say(f"{counted(len(gone), 'test')} not run again: each took {MOST_LOSSES} pods down with it")


def _no_other_pod_helps(context: Context, folder: Path, plan: Plan) -> bool:
    if not (folder / "journal").is_dir():
        return False
    return only_cards_failed(plan, read_journals(folder), context.settings.model.run.retries)


@contextlib.contextmanager
def _store_away(where: str) -> Iterator[None]:
    """A store that cannot be had now ends the pod as one that another is to take up."""
    try:
        yield
    except CommandError as error:
        raise StoreError(
            error.what, where=where, remedy="the next pod of the index tries it again"
        ) from error


@contextlib.contextmanager
def _log(folder: Path, index: int) -> Iterator[Callable[[bytes], object]]:
    """What the run prints goes to a log of this pod, beside its journals, and to where pods print."""
    path = _new_log(folder / "logs", index)
    text = codecs.getincrementaldecoder("utf-8")("replace")
    with path.open("xb", buffering=0) as stream:

        def output(data: bytes) -> None:
            with contextlib.suppress(OSError):  # a full disk is told of by the run
                stream.write(data)
            sys.stdout.write(text.decode(data))
            sys.stdout.flush()

        yield output


def _new_log(folder: Path, index: int) -> Path:
    folder.mkdir(exist_ok=True)
    number = 1
    while (path := folder / f"pod-{index}-{number}.log").exists():
        number += 1
    return path


def only_cards_failed(plan: Plan, journals: Sequence[Journal], retries: int) -> bool:
    """Whether nothing is left to run, on other cards either, and what is missing is the fault of cards.

    Args:
        plan: of what was to run here.
        journals: all there are of it.
        retries: how often a test that failed is run again.
    """
    account = reconcile(plan, journals)
    counts = account.counts
    if account.holes or not counts[Verdict.HARDWARE] or any(counts[verdict] for verdict in NO_OUTCOME):
        return False
    faults = {one.id for one in account.results if one.verdict is Verdict.HARDWARE}
    return not any(one.id in faults for one in pending_retries(journals, retries, boot=""))
