"""Run one test of a past run again as it ran there, as far as possible here, and compare the failures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ci.core.errors import (
    EXIT_INCOMPLETE,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_TEST_FAILED,
    BadFileError,
    MissingInputError,
    UsageError,
)
from ci.core.text import one_line
from ci.main_job.run import start_run
from ci.record import reproduction
from ci.record.failure_signature import Failure, compare
from ci.record.identity import read_identity
from ci.record.journal import gathered_journals
from ci.record.reproduce_line import at_commit
from ci.record.verdict import NO_OUTCOME, Verdict
from ci.report.reconcile import reconcile, replay_all
from ci.report.write import write_report
from ci.reproduce.evidence import Evidence, read_evidence, tries_of
from ci.reproduce.names import run_folder
from ci.runner.environment_info import back_end_of, installed_torch
from ci.runner.source import Source
from ci.steps.collect import resolve_source
from ci.steps.context import Context
from ci.steps.folder import RunFolder, new_run_folder
from ci.steps.plan import ShardSubset, shard_subset
from ci.steps.run import cards_of, run_step
from ci.steps.run_settings import RunNote, as_noted
from ci.steps.share import Share
from test_selection.files import write_json
from test_selection.ids import file_of
from test_selection.plan import Group, Plan, Shard, fingerprint, write_plan
from test_selection.selection import Selection, write_selection

# The variables of a run that are set again: no path, no address, nothing that names code.
_VARIABLES = re.compile(
    r"PYTORCH_TEST_WITH_[A-Z_]+|OMP_NUM_THREADS|MKL_NUM_THREADS|ATEN_CPU_CAPABILITY|THP_MEM_ALLOC_ENABLE|TZ"
    r"|LANG|LC_[A-Z]+"
)
_HARMLESS = re.compile(r"[A-Za-z0-9_.,:+-]{0,60}")
_UPSTREAM = re.compile(r"git\+https://github\.com/pytorch/pytorch(\.git)?@[A-Za-z0-9._/-]{1,100}")
_DEVICE = re.compile(r"[a-z][a-z0-9_]{0,30}")
# One card, no retry and nobody to share with.
_ONE_TEST = {"cards": 1, "static": True, "retries": 0, "control": "none", "share": None}
_NO_END = "no journal shows how it ended: see the logs of the folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The user's request.

    Attributes:
        name: the test, as people write it.
        run: the run, as people write it; None: the latest, or none where a seed is given.
        source: where the tests are; None: where the run's are.
        seed: of the run; None: as it was.
        attempt: which try is meant; 0: the last that failed.
        tries: how often it is run at most, until it fails alike.
        with_before: whether what ran before it in its process runs first.
    """

    name: str
    run: str | None = None
    source: str | None = None
    seed: int | None = None
    attempt: int = 0
    tries: int = 1
    with_before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What running it showed: a run folder, how each try ended and why that differs, and the exit code."""

    folder: str
    ends: Sequence[tuple[Failure, str]]
    exit_code: int


def look_up(context: Context, request: Request) -> Evidence:
    """What is known of the test, by its run or by the request alone.

    Raises:
        SpyreCiError: the run is not here or damaged, or has no such test.
    """
    found = _of_run(context, request)
    if request.seed is not None and request.seed != found.run_seed:
        notes = found.notes
        if found.run_seed is not None:
            notes = (*notes, f"the run's seed is {found.run_seed}; {request.seed} is used, as requested")
        found = replace(found, run_seed=request.seed, notes=notes)
    if context.settings.origins.get("device.name") == "flag" or not found.device:
        found = replace(found, device=context.settings.model.device.name)
    if not _DEVICE.fullmatch(found.device):
        what = f"the run's device is {found.device!r:.80}"
        raise BadFileError(what, where=found.at, remedy="name the device with --device")
    return found if request.source is None else replace(found, source=request.source)


def _of_run(context: Context, request: Request) -> Evidence:
    notes: tuple[str, ...] = ()
    if request.run is not None or request.seed is None:
        try:
            with run_folder(context, request.run or "latest") as folder:
                own = folder.resolve().is_relative_to(context.runs.resolve())
                at = request.run if request.run and Path(request.run).is_file() else str(folder)
                return read_evidence(folder, request.name, attempt=request.attempt, own=own, at=at)
        except MissingInputError as error:
            if request.seed is None:
                raise
            # A reproduce line has everything but the failure itself.
            notes = (f"{error.what}: there is no failure to compare with",)
    file_of(request.name)
    source = request.source or context.settings.model.pytorch.source
    return Evidence(id=request.name, attempt=request.attempt or 1, source=source, notes=notes)


def prepare(context: Context, request: Request, found: Evidence) -> tuple[Context, Source]:
    """The device, times, variables and tests of the run; what differs from it here is said.

    Raises:
        UsageError: only an untrusted run says where the tests are.
        BadFileError: the run's settings or the test's file are not valid.
    """
    note = RunNote(shards=frozenset(), allow_collect_errors=False, run=dict(found.times))
    settings = as_noted(context.on_device(found.device), RunFolder(path=Path(found.at)), note).settings
    run = settings.model.run.model_copy(update=_ONE_TEST)
    settings = replace(settings, model=settings.model.model_copy(update={"run": run}))
    source = _source(context, request, found)
    refuse_outside(source.tests, file_of(found.id), found.at)
    run_in = {
        "tests": (source.sha, found.info.pytorch_sha),
        "torch": (installed_torch().version, found.torch),
        "device": (back_end_of(found.device, context.environ), found.back_end),
        "image": (context.provider.image or "none", found.image),
    }
    for what, (here, there) in run_in.items():
        if there not in {"", here}:
            context.say(one_line(f"differs from the run: {what} is {here}, and was {there}", 500))
    variables = {
        name: value
        for name, value in found.worker.environ.items()
        if _VARIABLES.fullmatch(name) and _HARMLESS.fullmatch(value) and context.environ.get(name) != value
    }
    if variables:
        said = " ".join(f"{name}={value}" for name, value in variables.items())
        context.say(f"set as in the run: {said}")
    # The worker of one card has all cores; the run's had its share of them.
    cores, environ = found.worker.threads or context.cores, {**context.environ, **variables}
    return replace(context, settings=settings, cores=min(cores, context.cores), environ=environ), source


def _source(context: Context, request: Request, found: Evidence) -> Source:
    where = found.source
    if request.source is None and not found.own and where is not None and not _UPSTREAM.fullmatch(where):
        where = context.settings.model.pytorch.source
        if where is None:
            raise UsageError(
                f"the run's tests came from {found.source!r:.200}, which only an untrusted file says",
                where=found.at,
                remedy="name them with --pytorch-src",
            )
    return resolve_source(context, None if where is None else at_commit(where, found.info.pytorch_sha))


def refuse_outside(tests: Path, file: str, where: str) -> None:
    """Refuse a test file outside the folder of tests, which an untrusted run may name.

    Raises:
        BadFileError: it leads out of the folder.
    """
    if "\0" in file or not (tests / file).resolve().is_relative_to(tests.resolve()):
        what = f"{file!r:.200} is not a test file of the tree"
        raise BadFileError(what, where=where or tests, remedy="give the test's own id")


def run_again(context: Context, request: Request, found: Evidence) -> Ran:
    """Run the test in a run folder of its own, until it fails alike or `tries` are used.

    Raises:
        UsageError: nothing is known that ran before it.
        SpyreCiError: of the steps.
    """
    if request.with_before and not found.before:
        raise UsageError(
            "nothing ran before the test in its process, or that is not known",
            where=found.at or None,
            remedy="leave --with-before out",
        )
    # A plan holds a test once, also one that ran twice in that process.
    tried = {name: number for name, number in found.before if request.with_before and name != found.id}
    tried[found.id] = found.attempt
    context, source = prepare(context, request, found)
    cards_of(context)  # what is refused leaves no folder
    now, label = context.clock(), reproduction.KIND
    folder = new_run_folder(context.runs, device=found.device, label=label, epoch_s=now)
    mark = folder.path / reproduction.FILE  # it is nobody's latest run
    write_json(mark, label, reproduction.content_of(found.id, found.info.run, None))
    start_run(context, source, Share(stage=None, percent=100, ids=(found.id,)), folder.path)
    plan, selection = _plan(context, found, folder, tuple(tried))
    subset = replace(shard_subset(context, folder, plan, source), as_try=tried)
    ends, interrupted = _tries(context, subset, found, request.tries)
    account = reconcile(plan, gathered_journals(folder.path), interrupted=interrupted)
    identity = replace(read_identity(folder.path), seed=plan.run_seed)
    write_report(folder.path, account=account, identity=identity, selection=selection)
    ended = [(one.verdict.value, differs) for one, differs in ends]
    write_json(mark, label, reproduction.content_of(found.id, found.info.run, ended))
    code = EXIT_INTERRUPTED if interrupted else exit_code_of([one for one, _ in ends])
    return Ran(folder=str(folder.path), ends=ends, exit_code=code)


def exit_code_of(failures: Sequence[Failure]) -> int:
    """As for any run: 3 if a card failed or a try has no outcome, 1 if the test failed, else 0."""
    verdicts = {one.verdict for one in failures}
    if verdicts & {Verdict.HARDWARE, *NO_OUTCOME} or not failures:
        return EXIT_INCOMPLETE
    return EXIT_TEST_FAILED if Verdict.FAILED in verdicts else EXIT_OK


def _tries(
    context: Context, subset: ShardSubset, found: Evidence, most: int
) -> tuple[list[tuple[Failure, str]], bool]:
    """Run it until it fails alike or cannot run; how each try ended, and whether the user interrupted."""
    ends, seen = list[tuple[Failure, str]](), 0
    while len(ends) < most:
        interrupted = run_step(context, subset)
        journals = gathered_journals(subset.folder.path)
        tries = tries_of(found.id, journals)
        told, seen = tries[seen:], len(tries)
        if interrupted:
            return ends, True
        not_run = [state.not_run[found.id] for state in replay_all(journals) if found.id in state.not_run]
        why = not_run[-1] if not_run else _NO_END
        one = told[-1].failure if told else Failure(verdict=Verdict.NOT_RUN, message=why)
        ends.append((one, compare(found.failure, one) if found.failure else ""))
        if one.verdict is Verdict.NOT_RUN or (found.failure and not ends[-1][1]):
            break
    return ends, False


def _plan(
    context: Context, found: Evidence, folder: RunFolder, ids: tuple[str, ...]
) -> tuple[Plan, Selection]:
    """Write the plan of one test, or of one behind others, and the outcomes declared for them."""
    chains = ((0, len(ids)),) if len(ids) > 1 else ()
    group = Group(
        file=file_of(found.id), ids=ids, alone=len(ids) == 1, chains=chains, timeout_s=found.timeout_s
    )
    shards = (Shard(index=0, expected_s=1.0, groups=(group,)),)
    seed = context.run_seed() if found.run_seed is None else found.run_seed
    key = fingerprint(shards)
    plan = Plan(fingerprint=key, bound_s=1, makespan_s=1, binds="balance", shards=shards, seed=seed)
    declared = dict(found.expectations)
    selection = Selection(stage=None, percent=100, ids=list(ids), in_scope=len(ids), expectations=declared)
    write_plan(folder.plan, plan)
    write_selection(folder.selection, selection)
    return plan, selection
