"""What a pod of a job of tests runs: `spyre-ci run` on its shards, going on where an earlier pod was lost."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ci.core.commands import tend_command
from ci.core.errors import (
    EXIT_INCOMPLETE,
    EXIT_INTERRUPTED,
    EXIT_TEST_FAILED,
    PlanMismatchError,
    RunInUseError,
    SettingsError,
)
from ci.core.locks import run_lock
from ci.core.object_store import SCHEME
from ci.core.operating_system import boot_id, host_name
from ci.core.provider import BY_DIGEST
from ci.core.text import counted
from ci.jobs.job import (
    IMAGE_VARIABLE,
    INDEX_VARIABLE,
    INPUT_VARIABLE,
    RUN_VARIABLE,
    SHARE_VARIABLE,
    STORE_VARIABLE,
)
from ci.jobs.plan_chunks import PodPlan, read_chunks, read_pod_plan, unpack_plan
from ci.jobs.uploader import PODS
from ci.record.journal import Journal, read_journals
from ci.record.journal_line import event_of
from ci.record.verdict import NO_OUTCOME, Verdict
from ci.report.reconcile import reconcile
from ci.runner.child import module_words
from ci.runner.resume import MOST_LOSSES, pending_retries, write_off
from ci.steps.context import Context
from test_selection.files import write_json
from test_selection.plan import Plan, read_plan
from test_selection.shard_subset import format_ranges

# The run's own exit codes; any other means that it was lost.
_KNOWN = frozenset({0, 1, 2, 3})
TERMINATED = 128 + signal.SIGTERM
# How long a lock may stand whose holder's node is gone; NFS gives a lease of 90 seconds.
LOCK_S = 180.0
# A run that was told to end accounts for what it did; a cluster kills it long before.
ENDING_S = 600.0
# A journal's first line is no longer.
LINE_BYTES = 1 << 16


class StillInUseError(RunInUseError):
    """Another pod of the index still works in its folder; the next one takes the shards up."""

    exit_code = EXIT_INCOMPLETE


class Place(BaseModel):
    """Which pod of which run this is, as its environment tells.

    Attributes:
        store: a folder or s3://….
        run: as the store knows it.
        index: from 0.
        inputs: folder of the plan's chunks, unless the plan is in a bucket.
        share: pods take over each other's work, unless it is empty.
    """

    model_config = ConfigDict(frozen=True, str_strip_whitespace=True)

    store: str = Field(alias=STORE_VARIABLE, min_length=1)
    run: str = Field(alias=RUN_VARIABLE, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")
    index: int = Field(alias=INDEX_VARIABLE, ge=0, lt=1_000_000)
    inputs: str = Field(default="", alias=INPUT_VARIABLE)
    share: str = Field(default="", alias=SHARE_VARIABLE)

    @property
    def in_bucket(self) -> bool:
        """True if the store is a bucket."""
        return self.store.startswith(SCHEME)

    def folder(self, scratch: Path) -> Path:
        """The pod's run folder: in the store's volume, or on its own disk if the store is a bucket."""
        return (scratch if self.in_bucket else Path(self.store)) / self.run / PODS / str(self.index)


def place_of(environ: Mapping[str, str]) -> Place:
    """Which pod this is, from its environment.

    Raises:
        SettingsError: a variable is missing, or has a value it cannot have.
    """
    try:
        return Place.model_validate(environ)
    except ValidationError as error:
        told = error.errors()[0]
        what = "is not set" if told["type"] == "missing" else f"cannot be {told['input']!r:.80}"
        remedy = "only pods of a job run this command; submit a job with `spyre-ci job submit`"
        raise SettingsError(what, where=str(told["loc"][0]), remedy=remedy) from None


def run_pod(context: Context, place: Place, folder: Path, source: str | None) -> int:
    """Run the pod's shards; the exit code that the job's failure policy decides by.

    Args:
        context: the outside world.
        place: the pod's.
        folder: its run folder.
        source: of the tests in the image; None: where the run's are.

    Raises:
        StillInUseError: another pod of the index still works there.
        PlanMismatchError: an earlier pod ran another image.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wait_for_lock(folder, context.monotonic, time.sleep)
    refuse_another_image(folder, os.environ.get(IMAGE_VARIABLE, ""))
    if not place.in_bucket:
        unpack_plan(read_chunks(Path(place.inputs)), place.index, folder, where=place.inputs)
    if source is not None:
        write_json(folder / "source.json", "source", {"where": source, "sha": ""})
    return _run(context, place, read_pod_plan(folder), folder, source)


def _run(context: Context, place: Place, own: PodPlan, folder: Path, source: str | None) -> int:
    resumes = any((folder / "journal").glob("*.jsonl"))
    context.say(
        f"pod {place.index} of {own.pods:,}, run {own.run}: "
        f"{counted(len(own.shards), 'shard')} on {counted(own.cards, 'card')}"
        + (", resuming an earlier pod's work" if resumes else "")
    )
    plan = read_plan(folder / "plan.json")
    plan = replace(plan, shards=tuple(shard for shard in plan.shards if shard.index in own.shards))
    if resumes and not place.share:  # else another pod may have run it meanwhile
        gone = write_off(
            folder, plan, read_journals(folder), boot=boot_id(), host=host_name(), clock=context.clock
        )
        if gone:
            lost = f"each crashed {MOST_LOSSES} pods"
            context.say(f"{counted(len(gone), 'test')} not run again: {lost}")
    with _log(folder / "logs", place.index) as output:
        code, interrupts = tend_command(
            command_of(own, folder, resumes=resumes, source=source),
            output=output,
            env=environment_of(os.environ, place),
            ending_s=ENDING_S,
            orphans=os.getpid() == 1,
        )
    code = exit_code_of(code, interrupts)
    if code != EXIT_INCOMPLETE or place.share or not (folder / "journal").is_dir():
        return code
    if only_cards_failed(plan, read_journals(folder), context.settings.model.run.retries):
        context.say("no other pod is needed: nothing is left to run; what is missing is due to failed cards")
        return EXIT_TEST_FAILED
    return code


def command_of(own: PodPlan, folder: Path, *, resumes: bool, source: str | None = None) -> Sequence[str]:
    """The command line that runs a pod's shards.

    Args:
        own: what the pod runs.
        folder: its run folder.
        resumes: an earlier pod of the same index has begun.
        source: of the tests in the image; None: where the run's are.
    """
    words = [*module_words("ci.cli"), "run", "--resume" if resumes else "--run-dir", str(folder)]
    words += ["--shard", format_ranges(own.shards), "--cards", str(own.cards)]
    return words if source is None else [*words, "--pytorch-src", source]


def environment_of(environ: Mapping[str, str], place: Place) -> dict[str, str]:
    """The environment of that command. HUD hears of the whole run where it is collected, never of a part."""
    found = {**environ, "SPYRE_CI__REPORT__ENDPOINT": "none"}
    if place.share:
        found["SPYRE_CI__RUN__SHARE"] = f"{place.store.rstrip('/')}/{place.run}/claims"
    return found


def exit_code_of(code: int, interrupts: Sequence[int]) -> int:
    """What a pod ends with: the run's code, or the signal it was told to end by.

    A run that ended otherwise was lost, as by the kernel when memory ran out: another pod takes it up.
    """
    if interrupts and code not in _KNOWN:
        return TERMINATED if signal.SIGTERM in interrupts else EXIT_INTERRUPTED
    return code if code in _KNOWN else EXIT_INCOMPLETE


def refuse_another_image(folder: Path, image: str) -> None:
    """Refuse to go on with what a pod in another image began: one report would hold the verdicts of both.

    Args:
        folder: the pod's run folder.
        image: this pod's; unless it is a digest, nobody knows which image it was.

    Raises:
        PlanMismatchError: a journal is of another image.
    """
    if not BY_DIGEST.fullmatch(image):
        return
    for path in sorted((folder / "journal").glob("*.jsonl")):
        with path.open("rb") as stream:
            seen = getattr(event_of(stream.readline(LINE_BYTES)), "image", "")
        if seen and seen.rpartition("@")[2] != image.rpartition("@")[2]:
            raise PlanMismatchError(
                f"was written in image {seen!r:.300}, but this pod runs {image}",
                where=path,
                remedy="submit a new run for another image: collect, select and plan it",
            )


def wait_for_lock(folder: Path, clock: Callable[[], float], sleep: Callable[[float], object]) -> None:
    """Wait until nobody works in a pod's run folder: a lost node takes a while to lose its lock.

    Raises:
        StillInUseError: somebody still does.
    """
    end = clock() + LOCK_S
    while True:
        try:
            with run_lock(folder, alone=True):
                return
        except RunInUseError as error:
            if clock() >= end:
                raise StillInUseError(
                    f"another pod of this index still uses the folder, which {error.what}",
                    where=folder,
                    remedy="the next pod of this index continues",
                ) from error
            sleep(1.0)


def only_cards_failed(plan: Plan, journals: Sequence[Journal], retries: int) -> bool:
    """True if nothing is left to run, on other cards either, and what is missing is the fault of cards.

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


@contextlib.contextmanager
def _log(folder: Path, index: int) -> Iterator[Callable[[bytes], object]]:
    """The run's output goes to a log of this pod, beside its journals, and to standard output."""
    folder.mkdir(exist_ok=True)
    number = len(list(folder.glob(f"pod-{index}-*.log"))) + 1
    with (folder / f"pod-{index}-{number}.log").open("xb", buffering=0) as stream:

        def output(data: bytes) -> None:
            with contextlib.suppress(OSError):  # a full disk is told of by the run
                stream.write(data)
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

        yield output
