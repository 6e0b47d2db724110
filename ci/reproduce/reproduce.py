"""Bring one test of a run back: run it again as it ran then, as far as that can be had here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from ci.config.run_model import Run
from ci.core.errors import (
    EXIT_INCOMPLETE,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_TEST_FAILED,
    BadFileError,
    MissingInputError,
    UsageError,
)
from ci.main_job.run import plan_run
from ci.record import reproduction
from ci.record.failure_signature import Failure, compare
from ci.record.identity import RunIdentity, read_identity, write_identity
from ci.record.journal import gathered_journals
from ci.record.reproduce_line import at_commit
from ci.record.verdict import NO_OUTCOME, Verdict
from ci.report.reconcile import reconcile
from ci.report.write import write_report
from ci.reproduce.evidence import Evidence
from ci.reproduce.history import tries_of
from ci.reproduce.lookup import Wanted
from ci.reproduce.words import Again, Ran
from ci.runner.environment_info import back_end_of, installed_torch
from ci.runner.inventory import EMULATED_DEVICE, is_real
from ci.runner.source import Source
from ci.steps.collect import resolve_source
from ci.steps.context import Context
from ci.steps.folder import RunFolder, new_run_folder, write_source
from ci.steps.plan import ShardSubset
from ci.steps.run import cards_of, run_step
from ci.steps.share import ShareRequest, share_of
from test_selection.durations import Durations
from test_selection.files import write_json
from test_selection.ids import file_of
from test_selection.plan import Group, Plan, Shard, fingerprint, write_plan
from test_selection.selection import Expectation, Selection, read_selection, write_selection

# What of a run's environment is taken over: no path, no address, nothing that names code.
_TAKEN = re.compile(
    r"PYTORCH_TEST_WITH_[A-Z_]+|OMP_NUM_THREADS|MKL_NUM_THREADS|ATEN_CPU_CAPABILITY|THP_MEM_ALLOC_ENABLE|TZ"
    r"|LANG|LC_[A-Z]+"
)
_HARMLESS = re.compile(r"[A-Za-z0-9_.,:+-]{0,60}")
NOT_TOLD = Failure(verdict=Verdict.NOT_RUN, message="no journal tells of it: see the logs of the folder")
_UPSTREAM = re.compile(r"git\+https://github\.com/pytorch/pytorch(\.git)?@[A-Za-z0-9._/-]{1,100}")


def as_it_ran(context: Context, found: Evidence) -> Context:
    """The device and the runner's times of that run; one card, no second try, nobody to share with.

    Raises:
        BadFileError: its settings are none.
    """
    if found.device and context.settings.model.device.name != found.device:
        context = context.on_device(found.device)
    settings = context.settings
    fixed = {"cards": 1, "static": True, "retries": 0, "control": "none", "share": None}
    try:
        run = Run.model_validate({**settings.model.run.model_dump(), **found.settings, **fixed})
    except ValueError as error:
        raise BadFileError(
            f"the run's settings cannot be taken: {' '.join(str(error).split())[:300]}",
            where=found.at,
            remedy="the file was changed by hand; bring the test back with its seed instead",
        ) from error
    model = settings.model.model_copy(update={"run": run})
    context = replace(context, settings=replace(settings, model=model))
    threads = found.tried.place.threads if found.tried is not None else 0
    # The worker of one card has all cores; the run's had its share of them.
    return replace(context, cores=min(threads, context.cores)) if threads else context


def differences(context: Context, found: Evidence, source: Source) -> list[str]:
    """What is not as it was in the run, and may be why it does not fail here."""
    said = []
    if found.sha and source.sha != found.sha:
        said.append(f"THE TESTS ARE {source.sha}, and the run's were {found.sha}")
    here = installed_torch().version
    if found.pytorch_version and found.pytorch_version != here:
        said.append(f"torch is {here}, and the run had {found.pytorch_version}")
    device = context.settings.model.device.name
    made = back_end_of(device, context.environ)
    if found.back_end and made != found.back_end:
        said.append(f"the device is that of {made}, and the run's was of {found.back_end}")
    card = found.tried.place.card if found.tried is not None else ""
    if (
        device == EMULATED_DEVICE
        and card
        and not card.startswith("emulated:")
        and not is_real(cards_of(context))
    ):
        said.append(f"the run had the card {card}, and here is none: the emulated device is used")
    if found.image and found.image != context.provider.image:
        said.append(f"the run was in the image {found.image}; --shell opens it")
    return said


def with_environment(context: Context, found: Evidence) -> tuple[Context, str]:
    """The run's variables that choose how tests behave, where harmless; and those that are not so here."""
    environ = found.tried.place.environ if found.tried is not None else {}
    wanted: Mapping[str, str] = {
        name: value
        for name, value in environ.items()
        if _TAKEN.fullmatch(name) and _HARMLESS.fullmatch(value) and context.environ.get(name) != value
    }
    said = " ".join(f"{name}={value}" for name, value in wanted.items())
    return replace(context, environ={**context.environ, **wanted}), said


def run_again(context: Context, wanted: Wanted, found: Evidence) -> tuple[Ran, tuple[str, ...]]:
    """Run the test, in a run folder of its own, and say what came of it and what is not as it was.

    Raises:
        UsageError: its tests are a stranger's, or nothing is known that ran before it.
        SpyreCiError: of the steps.
    """
    context = as_it_ran(context, found)
    source = source_of(context, wanted, found)
    notes = list(differences(context, found, source))
    before = _before(wanted, found)
    for note in notes:
        context.say(f"not as it was: {note}")
    context, put_back = with_environment(context, found)
    if put_back:
        context.say(f"as in the run: {put_back}")
        notes.append(f"as in the run: {put_back}")
    folder = _new_folder(context, found, source)
    plan, expectations = _plan(context, found, source, folder, before)
    tried = dict(before) | {found.id: found.attempt}
    part = ShardSubset(
        plan=plan,
        shards=plan.shards,
        source=source,
        expectations=expectations,
        durations=Durations(),
        folder=folder,
        as_try=tried,
    )
    ends, interrupted = _tries(context, part, found, wanted.tries)
    code = EXIT_INTERRUPTED if interrupted else exit_code_of(ends)
    ran = Ran(folder=str(folder.path), tries=tuple(ends), exit_code=code, after=len(before))
    _finish(context, folder, part, found, ran)
    return ran, tuple(notes)


def exit_code_of(ends: Sequence[Again]) -> int:
    """As any run's: 3 where a card failed or nothing came of it, 1 where the test failed, else 0."""
    verdicts = {one.end.verdict for one in ends}
    if verdicts & {Verdict.HARDWARE, *NO_OUTCOME} or not ends:
        return EXIT_INCOMPLETE
    return EXIT_TEST_FAILED if Verdict.FAILED in verdicts else EXIT_OK


def _tries(context: Context, part: ShardSubset, found: Evidence, most: int) -> tuple[list[Again], bool]:
    """Run it until it fails as it did or cannot be run, at most so often; and whether somebody ended it."""
    ends: list[Again] = []
    seen = 0
    for number in range(1, most + 1):
        if most > 1:
            context.say(f"try {number} of {most}")
        interrupted = run_step(context, part)
        every = tries_of(found.id, gathered_journals(part.folder.path))
        told, seen = every[seen:], len(every)
        if interrupted:
            return ends, True
        end = told[-1].end if told else NOT_TOLD
        ends.append(Again(end=end, differs="" if found.end is None else compare(found.end, end)))
        if end.verdict is Verdict.NOT_RUN or (found.end is not None and not ends[-1].differs):
            break
    return ends, False


def source_of(context: Context, wanted: Wanted, found: Evidence) -> Source:
    """The tests, at the run's commit where they can be had there.

    Raises:
        UsageError: only a stranger says where they are.
        SpyreCiError: of `resolve_source`.
    """
    where = wanted.source if wanted.source is not None else found.source
    if wanted.source is None and not found.own and where is not None and not _UPSTREAM.fullmatch(where):
        where = context.settings.model.pytorch.source
        if where is None:
            raise UsageError(
                f"the run's tests were of {found.source!r:.200}, which a stranger names",
                where=found.at,
                remedy="say where they are with --pytorch-src",
            )
    return resolve_source(context, None if where is None else at_commit(where, found.sha))


def _before(wanted: Wanted, found: Evidence) -> tuple[tuple[str, int], ...]:
    """What runs before it: with --with-before all that did, else what is chained to it.

    Raises:
        UsageError: nothing ran before it, or nobody knows.
    """
    if not wanted.with_before:
        group = found.group
        for first, count in group.chains if group is not None else ():
            names = group.ids[first : first + count] if group is not None else ()
            if found.id in names:
                return tuple((name, 1) for name in names[: names.index(found.id)])
        return ()
    if not found.before:
        raise UsageError(
            "nothing ran before the test in its process, or no journal tells of it",
            where=found.at or None,
            remedy="leave --with-before out",
        )
    # A test that ran twice in a process is one there once: no plan holds it twice.
    return tuple({name: number for name, number in found.before if name != found.id}.items())


def _new_folder(context: Context, found: Evidence, source: Source) -> RunFolder:
    now = context.clock()
    device = context.settings.model.device.name
    folder = new_run_folder(context.runs, device=device, label=reproduction.KIND, epoch_s=now)
    write_json(
        folder.path / reproduction.FILE, reproduction.KIND, reproduction.content_of(found.id, found.run, None)
    )
    words = ["spyre-ci", "reproduce", *(["--pytorch-src", source.where] if source.where else [])]
    identity = RunIdentity(
        run=folder.run,
        run_id=max(int(now), 1),
        run_attempt=1,
        device=device,
        pytorch_version=installed_torch().version,
        pytorch_sha=source.sha,
        stage=None,
        percent=100,
        started_at=now,
        back_end=back_end_of(device, context.environ),
        image=context.provider.image,
        restricted="a test brought back",
        reproduce=tuple(words),
    )
    write_identity(folder.path, identity)
    write_source(folder, where=source.where, sha=source.sha, files=source.files)
    return folder


def _plan(
    context: Context,
    found: Evidence,
    source: Source,
    folder: RunFolder,
    before: Sequence[tuple[str, int]],
) -> tuple[Plan, dict[str, Expectation]]:
    """The plan of one test, or of one behind others, and the outcomes declared for it."""
    ids = (*(name for name, _ in before), found.id)
    file = file_of(found.id)
    refuse_outside(source.tests, file, found.at)
    if found.group is None and not before:
        share = share_of(context, ShareRequest(percent=100, ids=(found.id,)))
        planned, selection = plan_run(context, source, share, folder, shards=1)
        if found.id not in planned.ids:
            raise MissingInputError(
                "the test is not in these sources, or not in scope here",
                where=source.tests / file,
                remedy="see why with `spyre-ci scope`; or name the run's sources with --pytorch-src",
            )
        made = replace(planned, seed=found.run_seed if found.run_seed is not None else planned.seed)
        write_plan(folder.plan, made)
        return made, dict(selection.expectations)
    chains = ((0, len(ids)),) if len(ids) > 1 else ()
    limit = found.group.timeout_s if found.group is not None else None
    group = Group(file=file, ids=ids, alone=len(ids) == 1, chains=chains, timeout_s=limit)
    shards = (Shard(index=0, expected_s=1.0, groups=(group,)),)
    seed = found.run_seed if found.run_seed is not None else context.run_seed()
    made = Plan(
        fingerprint=fingerprint(shards), bound_s=1, makespan_s=1, binds="balance", shards=shards, seed=seed
    )
    expectations = {name: found.expectations[name] for name in ids if name in found.expectations}
    write_plan(folder.plan, made)
    write_selection(
        folder.selection,
        Selection(stage=None, percent=100, ids=list(ids), in_scope=len(ids), expectations=expectations),
    )
    return made, expectations


def refuse_outside(tests: Path, file: str, where: str) -> None:
    """Refuse a file that is none of the tree's: what an artifact names is a stranger's word.

    Raises:
        BadFileError: it leads out of the folder of tests.
    """
    path = PurePosixPath(file)
    inside = not path.is_absolute() and ".." not in path.parts and "\0" not in file and path.suffix == ".py"
    if not inside or not (tests / file).resolve().is_relative_to(tests.resolve()):
        raise BadFileError(
            f"{file!r:.200} is no test file of the tree", where=where or tests, remedy="give the id as it was"
        )


def _finish(context: Context, folder: RunFolder, part: ShardSubset, found: Evidence, ran: Ran) -> None:
    """The reports of it, for people, and what it was; HUD and the history hear of runs alone."""
    account = reconcile(
        part.plan, gathered_journals(folder.path), interrupted=ran.exit_code == EXIT_INTERRUPTED
    )
    identity = replace(read_identity(folder.path), seed=part.plan.run_seed)
    write_report(folder.path, account=account, identity=identity, selection=read_selection(folder.selection))
    tries = [(one.end.verdict.value, one.differs) for one in ran.tries]
    write_json(
        folder.path / reproduction.FILE,
        reproduction.KIND,
        reproduction.content_of(found.id, found.run, tries),
    )
    context.say(f"report: {folder.report}")
