"""What a run folder, or a CI's artifact of one, knows of one test: its failure, seed and environment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ci.core.errors import MissingInputError, SpyreCiError
from ci.record.events import ShardStart
from ci.record.failure_signature import Failure, last_failure
from ci.record.identity import source_in
from ci.record.journal import Journal, gathered_journals
from ci.record.reproduce_line import ref_of, reproduce_line
from ci.record.result import Try
from ci.record.run_state import RunState
from ci.record.verdict import NO_OUTCOME, Verdict
from ci.report.reader import Row, RunInfo, read_run
from ci.reproduce.names import find_test
from ci.steps.folder import RunFolder
from ci.steps.run_settings import FILE as SETTINGS_FILE
from ci.steps.run_settings import read_note
from test_selection.catalog import read_catalog
from test_selection.plan import Group, read_plan
from test_selection.seeds import seed_of_test
from test_selection.selection import Expectation, read_selection

MOST_VARIABLES = 60
# Of a run's own results, unpacked; of an untrusted one's fewer are read.
_MOST_BYTES = 4 << 30
# Of the run's settings only what bounds how long a test may take is used again.
_TIMES = ("test_timeout_s", "timeout_factor", "timeout_floor_s", "setup_timeout_s", "grace_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One test of a run; what is not known is empty, 0 or None.

    Attributes:
        id: the test id.
        run: the readable run id.
        ref: names the run in a reproduce line.
        at: the folder or archive that was read.
        own: whether it is a run of this machine; everything else is untrusted data.
        verdict: of the test over all its tries.
        failure: how the try ended that is reproduced.
        attempt: that try, from 1.
        attempts: how many there were.
        run_seed: the run's seed.
        seed: the test's own in that try.
        device: the device's name.
        source: where the tests came from; None: the embedded op suite.
        sha: their commit, or a content hash.
        pytorch_version: of torch.
        back_end: what made the device.
        image: it ran in, name@sha256:….
        card: it ran on.
        python: its version.
        threads: of the CPU that it might use.
        environ: variables that may matter.
        before: the tests that ran before it in its process, with the try of each.
        group: what the plan says of the test and those that run with it.
        expectations: declared outcomes of it and of what ran before it.
        times: time-outs of the run, by the name of their setting.
        notes: what a reader must know.
    """

    id: str
    run: str = ""
    ref: str = ""
    at: str = ""
    own: bool = True
    verdict: str = ""
    failure: Failure | None = None
    attempt: int = 1
    attempts: int = 0
    run_seed: int | None = None
    seed: int | None = None
    device: str = ""
    source: str | None = None
    sha: str = ""
    pytorch_version: str = ""
    back_end: str = ""
    image: str = ""
    card: str = ""
    python: str = ""
    threads: int = 0
    environ: Mapping[str, str] = field(default_factory=dict)
    before: tuple[tuple[str, int], ...] = ()
    group: Group | None = None
    expectations: Mapping[str, Expectation] = field(default_factory=dict)
    times: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The line that reproduces it."""
        return reproduce_line(
            self.id,
            device=self.device or "spyre",
            source=self.source,
            sha=self.sha,
            seed=self.run_seed,
            ref=self.ref,
            attempt=self.attempt,
        )


class Tried(NamedTuple):
    """A try of the test, with what ran before it in its process, and where its worker was."""

    one: Try
    before: tuple[tuple[str, int], ...]
    worker: ShardStart

    @property
    def failure(self) -> Failure:
        """How it ended."""
        cause = "" if self.one.outcome is Verdict.HARDWARE else self.one.cause or ""
        return Failure(verdict=self.one.outcome, cause=cause, message=self.one.message)


def tries_of(name: str, journals: Iterable[Journal]) -> list[Tried]:
    """Every try of a test that journals tell of, in order. Pure."""
    found = []
    for journal in journals:
        state = RunState(shard=journal.shard, attempt=journal.attempt)
        worker, before, started = ShardStart(), list[tuple[str, int]](), []
        for event in journal.events:
            state.take(event)
            worker = event if isinstance(event, ShardStart) else worker
            if state.latest.begun_file:  # a new process
                before = []
            if began := state.latest.began:
                if began == name:
                    started.append((tuple(before), worker))
                before.append((began, state.open[began].seeded_as))
        state.finish(interrupted=False)
        found += [Tried(one, *how) for one, how in zip(state.tries.get(name, ()), started, strict=False)]
    return found


def chosen(tries: Sequence[Tried], number: int) -> Tried | None:
    """The try of a number, the latest of several; of 0, the last that failed, else the last. Pure."""
    if number:
        return next((one for one in reversed(tries) if one.one.seeded_as == number), None)
    bad = [one for one in tries if one.failure.bad]
    ended = [one for one in tries if one.one.outcome not in NO_OUTCOME]
    return next(reversed(bad or ended or tries), None)


def read_evidence(folder: Path, name: str, *, attempt: int, own: bool, at: str) -> Evidence:
    """What a run folder knows of a test.

    Args:
        folder: of the run.
        name: the test, as people write it.
        attempt: the try that is meant; 0: the last that failed.
        own: whether it is a run of this machine.
        at: what errors name.

    Raises:
        MissingInputError: it is not a run's folder, has no such test, or no such try of it.
        UsageError: several tests are meant.
        BadFileError: a file of it is damaged.
    """
    run = read_run(folder, most_bytes=_MOST_BYTES) if own else read_run(folder)
    files = RunFolder(path=folder)
    rows = {row.id: row for row in run.rows}
    found = find_test(name, _nodes(files, rows) if own else dict.fromkeys(rows, ""), where=at)
    row, tries = rows[found], tries_of(found, gathered_journals(folder))
    tried = chosen(tries, attempt or row.tried)
    if attempt and (attempt > max(row.attempts, 1) or (tries and tried is None)):
        raise MissingInputError(
            f"the test has no attempt {attempt}",
            where=at,
            remedy=f"it had {row.attempts}; leave --attempt out",
        )
    bad = sum(one.failure.bad for one in tries)
    notes = ["no journal of the test was found: what ran before it is not known"] if tried is None else []
    if 0 < bad < len(tries):
        notes.append(
            f"it failed in {bad} of {len(tries)} tries: it may be flaky, so run it several times (--tries)"
        )
    told = _evidence(files, run.summary.identity, row, tried, attempt or row.tried or 1)
    return replace(told, own=own, at=at, notes=tuple(notes))


def _evidence(files: RunFolder, info: RunInfo, row: Row, tried: Tried | None, number: int) -> Evidence:
    worker = ShardStart() if tried is None else tried.worker
    number = number if tried is None else tried.one.seeded_as
    run_seed = info.seed if tried is None or worker.seed is None else worker.seed
    seed = None if run_seed is None else seed_of_test(run_seed, row.id, number)
    before = () if tried is None else tried.before
    return Evidence(
        id=row.id,
        run=info.run,
        ref=ref_of(run=info.run, provider=info.provider, run_id=info.run_id, run_attempt=info.run_attempt),
        verdict=row.verdict.value,
        failure=_failure(row, tried),
        attempt=number,
        attempts=row.attempts,
        run_seed=run_seed,
        seed=seed if tried is None or tried.one.seed is None else tried.one.seed,
        device=info.device,
        source=source_in(info.reproduce),
        sha=info.pytorch_sha,
        pytorch_version=worker.torch or info.pytorch_version,
        back_end=worker.back_end or info.back_end,
        image=worker.image or info.image,
        card=worker.card or "",
        python=worker.python,
        threads=worker.threads,
        environ=dict(list(worker.environ.items())[:MOST_VARIABLES]),
        before=before,
        group=_group(files, row.id),
        expectations=_expectations(files, [row.id, *(one for one, _ in before)]),
        times=_times(files),
    )


def _nodes(files: RunFolder, rows: Iterable[str]) -> dict[str, str]:
    """By test id pytest's name for it, if the run's catalog tells."""
    nodes: dict[str, str] = {}
    if files.catalog.is_file():
        with contextlib.suppress(SpyreCiError):  # ids serve without it
            nodes = {test.id: test.node for test in read_catalog(files.catalog).tests}
    return {name: nodes.get(name, "") for name in rows}


def _failure(row: Row, tried: Tried | None) -> Failure | None:
    if tried is not None and tried.one.outcome not in NO_OUTCOME:
        return tried.failure
    if row.verdict in NO_OUTCOME:
        return None
    verdict = Verdict.FAILED if row.verdict is Verdict.FLAKY else row.verdict
    return Failure(verdict=verdict, cause=row.cause or "", message=last_failure(row.message))


def _group(files: RunFolder, name: str) -> Group | None:
    shards = read_plan(files.plan).shards if files.plan.is_file() else ()
    return next((group for shard in shards for group in shard.groups if name in group.ids), None)


def _expectations(files: RunFolder, names: Sequence[str]) -> dict[str, Expectation]:
    declared = read_selection(files.selection).expectations if files.selection.is_file() else {}
    return {name: declared[name] for name in names if name in declared}


def _times(files: RunFolder) -> dict[str, Any]:
    if (files.path / SETTINGS_FILE).is_file():
        with contextlib.suppress(SpyreCiError):
            note = read_note(files)
            return {} if note is None else {key: note.run[key] for key in _TIMES if key in note.run}
    return {}
