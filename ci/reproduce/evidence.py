"""What a run folder, or a CI's artifact of one, knows of one test: its failure, seed and environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ci.core.errors import MissingInputError
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
from ci.steps.run_settings import read_note
from test_selection.catalog import read_catalog
from test_selection.plan import read_plan
from test_selection.seeds import seed_of_test
from test_selection.selection import Expectation, read_selection

# Of a run's own results, unpacked; of an untrusted one's fewer are read.
_MOST_BYTES = 4 << 30
# Of the run's settings only what bounds how long a test may take is used again.
_TIMES = ("test_timeout_s", "timeout_factor", "timeout_floor_s", "setup_timeout_s", "grace_s")


_NO_RUN = RunInfo(device="", pytorch_version="", pytorch_sha="", percent=100)
_NO_WORKER = ShardStart()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One test of a run; what is not known is empty, 0 or None.

    Attributes:
        id: the test id.
        info: of the run, as its summary has it.
        at: the folder or archive that was read.
        own: whether it is a run of this machine; everything else is untrusted data.
        device: the device's name.
        source: where the tests came from; None: the embedded op suite.
        verdict: of the test over all its tries.
        failure: how the try ended that is reproduced.
        attempt: that try, from 1.
        attempts: how many there were.
        run_seed: the run's seed.
        worker: what the worker of that try said of itself.
        before: the tests that ran before it in its process, with the try of each.
        timeout_s: what the plan allows the test.
        expectations: declared outcomes of it and of what ran before it.
        times: time-outs of the run, by the name of their setting.
        notes: what a reader must know.
    """

    id: str
    info: RunInfo = _NO_RUN
    at: str = ""
    own: bool = True
    device: str = ""
    source: str | None = None
    verdict: str = ""
    failure: Failure | None = None
    attempt: int = 1
    attempts: int = 0
    run_seed: int | None = None
    worker: ShardStart = _NO_WORKER
    before: tuple[tuple[str, int], ...] = ()
    timeout_s: float | None = None
    expectations: Mapping[str, Expectation] = field(default_factory=dict)
    times: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def seed(self) -> int | None:
        """The test's own seed in that try."""
        return None if self.run_seed is None else seed_of_test(self.run_seed, self.id, self.attempt)

    @property
    def torch(self) -> str:
        """The version of torch."""
        return self.worker.torch or self.info.pytorch_version

    @property
    def back_end(self) -> str:
        """What made the device."""
        return self.worker.back_end or self.info.back_end

    @property
    def image(self) -> str:
        """The image it ran in, name@sha256:…."""
        return self.worker.image or self.info.image

    @property
    def command(self) -> str:
        """The line that reproduces it."""
        run = self.info
        ref = ref_of(run=run.run, provider=run.provider, run_id=run.run_id, run_attempt=run.run_attempt)
        seed, attempt, device = self.run_seed, self.attempt, self.device
        return reproduce_line(
            self.id,
            device=device,
            source=self.source,
            sha=run.pytorch_sha,
            seed=seed,
            ref=ref,
            attempt=attempt,
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
        worker, before, started = _NO_WORKER, list[tuple[str, int]](), []
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
    rows, nodes = {row.id: row for row in run.rows}, dict[str, str]()
    if own and files.catalog.is_file():
        nodes = {test.id: test.node for test in read_catalog(files.catalog).tests}
    found = find_test(name, {one: nodes.get(one, "") for one in rows}, where=at)
    row, tries = rows[found], tries_of(found, gathered_journals(folder))
    tried = chosen(tries, attempt or row.tried)
    if attempt and (attempt > max(row.attempts, 1) or (tries and tried is None)):
        remedy = f"it had {row.attempts}; leave --attempt out"
        raise MissingInputError(f"the test has no attempt {attempt}", where=at, remedy=remedy)
    lost = ("no journal of the test was found: what ran before it is not known",) if tried is None else ()
    shards = read_plan(files.plan).shards if files.plan.is_file() else ()
    settings = read_note(files)
    info, worker = run.summary.identity, _NO_WORKER if tried is None else tried.worker
    return Evidence(
        id=found,
        info=info,
        at=at,
        own=own,
        device=info.device,
        source=source_in(info.reproduce),
        verdict=row.verdict.value,
        failure=_failure(row, tried),
        attempt=attempt or row.tried or 1 if tried is None else tried.one.seeded_as,
        attempts=row.attempts,
        run_seed=info.seed if worker.seed is None else worker.seed,
        worker=worker,
        before=() if tried is None else tried.before,
        timeout_s=next((one.timeout_s for shard in shards for one in shard.groups if found in one.ids), None),
        expectations=read_selection(files.selection).expectations if files.selection.is_file() else {},
        times={} if settings is None else {key: settings.run[key] for key in _TIMES if key in settings.run},
        notes=lost,
    )


def _failure(row: Row, tried: Tried | None) -> Failure | None:
    if tried is not None and tried.one.outcome not in NO_OUTCOME:
        return tried.failure
    if row.verdict in NO_OUTCOME:
        return None
    verdict = Verdict.FAILED if row.verdict is Verdict.FLAKY else row.verdict
    return Failure(verdict=verdict, cause=row.cause or "", message=last_failure(row.message))
