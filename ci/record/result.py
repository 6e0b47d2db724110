"""Results: the tries of a test, the verdict they come to, and the exit code of a run. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ci.core.errors import EXIT_INCOMPLETE, EXIT_INTERRUPTED, EXIT_OK, EXIT_TEST_FAILED
from ci.core.text import counted
from ci.record.failure_marks import Control, Quarantined, Whose
from ci.record.verdict import FAILING, NO_OUTCOME, Verdict

SILENT = "the worker exited without a result"
LOST = "its output is lost: no collected journal has it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One time a test was started, and how that ended.

    Attributes:
        outcome: how it ended; never `flaky`, which only several tries can make.
        seconds: how long it ran.
        message: one line for people.
        cause: of a test that ended with its process: signal, hang, oom or exit.
        detail: the full traceback or output.
        card: the accelerator it ran on.
        shard: the shard whose journal tells of it.
        started_at: seconds since the epoch.
        number: which try of the test it is, from 1, as far as whoever ordered it knew.
        again: whether it was ordered because the try before had ended badly.
        leak: processes and threads it left behind.
        job: how often the CI had run the job that tells of it, that time included.
        seed: it was run with; None where nobody noted one.
        seeded_as: the try whose seed that is, as a rule this one.
        unseeded: what could not be given that seed, and why; empty where all was.
    """

    outcome: Verdict
    seconds: float = 0.0
    message: str = ""
    cause: str | None = None
    detail: str = ""
    card: str | None = None
    shard: int | None = None
    started_at: float | None = None
    number: int = 1
    again: bool = False
    leak: str = ""
    job: int = 1
    seed: int | None = None
    seeded_as: int = 1
    unseeded: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The verdict of one planned test.

    Attributes:
        id: the test id.
        verdict: one of the nine.
        seconds: how long its last try with an outcome ran.
        card: the accelerator of the try the verdict speaks of.
        attempts: how often it was started.
        interrupted: how many of these tries the end of the run cut short, before another had an outcome.
        message: one line for people; with several tries it tells of each.
        file: the test file.
        cause: of a crash: signal, hang, oom or exit.
        detail: the full traceback or output of the try the verdict speaks of.
        shard: where it ran; where it did not, the shard it was planned for.
        started_at: of its last try, in seconds since the epoch.
        expectation: the reason a suite file gives for the outcome it declares.
        quarantine: the entry that keeps its failure from turning the run red.
        control: what became of it on the control device, where it failed and there was one.
        leak: processes and threads that its last try to leave any left behind.
        seed: of the try the verdict speaks of; None where nobody noted one.
        tried: the try whose seed that is, as whoever ordered it counts; 0 where nobody knows.
    """

    id: str
    verdict: Verdict
    seconds: float = 0.0
    card: str | None = None
    attempts: int = 0
    interrupted: int = 0
    message: str = ""
    file: str = ""
    cause: str | None = None
    detail: str = ""
    shard: int | None = None
    started_at: float | None = None
    expectation: str = ""
    quarantine: Quarantined | None = None
    control: Control | None = None
    leak: str = ""
    seed: int | None = None
    tried: int = 0

    @property
    def forgiven(self) -> bool:
        """Whether it failed and does not turn the run red, because it is quarantined."""
        return self.verdict is Verdict.FAILED and self.quarantine is not None

    @property
    def upstream(self) -> bool:
        """Whether it failed on the control device too, so that PyTorch is to blame and not the back end."""
        return self.whose == "upstream"

    @property
    def whose(self) -> Whose | None:
        """Whose its failure is, as the control device has it; None where it came to no outcome there."""
        return self.control.whose if self.verdict is Verdict.FAILED and self.control is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitStatus:
    """The exit code of a run, and every reason it is not 0, the weightiest first."""

    code: int
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """What is known of a run's failed tests.

    Attributes:
        forgiven: how many are quarantined, and do not turn the run red.
        upstream: how many of the others fail on the control device too.
        device: how many of them pass there.
        unclear: how many came to another end there, which says nothing.
        control: the control device; empty where nothing ran there.
        expired: `file:line` of each expired quarantine entry that covers a test of the run.
    """

    forgiven: int = 0
    upstream: int = 0
    device: int = 0
    unclear: int = 0
    control: str = ""
    expired: tuple[str, ...] = ()


def fold(outcomes: Sequence[Verdict]) -> Verdict:
    """The verdict over a test's tries, in the order of time.

    The last outcome of the test's own decides, but a skip says nothing against a failure before it. Where
    that is a good one, an earlier fault of the card makes it `hardware` and an earlier failure `flaky`: a
    retry is never a silent pass (law 5). A try that was lost from outside counts only when no other try
    came to an outcome.
    """
    own = [outcome for outcome in outcomes if outcome not in NO_OUTCOME]
    if not own:
        lost = Verdict.INFRASTRUCTURE in outcomes
        return Verdict.INFRASTRUCTURE if lost else Verdict.NOT_RUN
    if own[-1] in FAILING:
        return own[-1]
    if own[-1] is Verdict.SKIPPED and Verdict.FAILED in own:
        return Verdict.FAILED
    if Verdict.HARDWARE in own:
        return Verdict.HARDWARE
    return Verdict.FLAKY if Verdict.FAILED in own else own[-1]


def settle(name: str, tries: Sequence[Try], *, file: str, expectation: str = "") -> Result:
    """The result of a test that was started at least once.

    A try that is lost, while a later one says that it was ordered for its sake, counts as failed: a retry is
    never a silent pass (law 5).

    Args:
        name: its test id.
        tries: in the order of jobs, of their numbers and of time; not empty.
        file: the test file.
        expectation: the reason of a declared outcome.
    """
    # Each job counts its tries from 1.
    jobs = itertools.groupby(tries, key=lambda one: one.job)
    tries = [one for _, some in jobs for one in _with_lost(list(some))]
    verdict = fold([one.outcome for one in tries])
    told = _told_of(verdict, tries)
    own = [one for one in tries if one.outcome not in NO_OUTCOME]
    last = own[-1] if own else tries[-1]
    return Result(
        id=name,
        verdict=verdict,
        seconds=last.seconds,
        card=told.card,
        attempts=len(tries),
        interrupted=sum(one.outcome is Verdict.NOT_RUN for one in tries) if own else 0,
        message=told.message if len(tries) == 1 else _history(tries),
        file=file,
        cause=told.cause,
        detail=told.detail,
        shard=last.shard,
        started_at=last.started_at,
        expectation=expectation,
        seed=told.seed,
        tried=told.seeded_as if told.seed is not None else 0,
        leak=next((one.leak for one in reversed(tries) if one.leak), ""),
    )


def judge(
    counts: Mapping[Verdict, int],
    *,
    percent: float,
    collect_errors: int = 0,
    allow_collect_errors: bool = False,
    holes: Sequence[str] = (),
    interrupted: bool = False,
    stopped: Mapping[str, int] | None = None,
    failures: Failures | None = None,
) -> ExitStatus:
    """The exit code: 130 interrupted, 3 incomplete, 1 a failed test, 0 otherwise; the first that fits.

    A quarantined test that failed does not count; that an entry which covers a test of the run has expired
    does. What fails on the control device too reddens the run like any failure, and is told apart.

    Args:
        counts: how many tests came to each verdict.
        percent: the share of the tests in scope that was asked for; above 0, nothing to run is no success.
        collect_errors: how many files in scope could not be collected.
        allow_collect_errors: whether such files may be.
        holes: other reasons the account is not whole, one sentence each.
        interrupted: whether a person or the CI ended the run.
        stopped: how many tests that were not run had not to be, by why; such a run is red and not incomplete.
        failures: what is known of the failed tests.
    """
    incomplete: list[str] = []
    if collect_errors and not allow_collect_errors:
        incomplete.append(f"{counted(collect_errors, 'in-scope file')} could not be collected")
    incomplete += holes
    stopped = stopped or {}
    for verdict, said in _INCOMPLETE.items():
        wanted = sum(stopped.values()) if verdict is Verdict.NOT_RUN else 0
        if number := counts.get(verdict, 0) - wanted:
            incomplete.append(f"{counted(number, 'test')} {said}")
    if percent > 0 and not sum(counts.values()):
        incomplete.append(f"there was nothing to run, although {percent:g} % was asked for")
    red = _red(counts.get(Verdict.FAILED, 0), failures or Failures())
    red += [f"{reason}, {counted(number, 'test')} not run" for reason, number in stopped.items()]
    reasons = (*incomplete, *red)
    if interrupted:
        return ExitStatus(code=EXIT_INTERRUPTED, reasons=("the run was interrupted", *reasons))
    if incomplete:
        return ExitStatus(code=EXIT_INCOMPLETE, reasons=reasons)
    return ExitStatus(code=EXIT_TEST_FAILED if red else EXIT_OK, reasons=reasons)


def _red(failed: int, known: Failures) -> list[str]:
    """Why the run is red though its account is whole."""
    told = []
    if blamed := failed - known.forgiven:
        told.append(f"{counted(blamed, 'test')} failed" + _told_apart(blamed, known))
    if known.expired:
        entries = counted(len(known.expired), "quarantine entry", "quarantine entries")
        shown = ", ".join(known.expired[:_SHOWN]) + (", …" if len(known.expired) > _SHOWN else "")
        told.append(f"{entries} expired ({shown})")
    return told


def _told_apart(blamed: int, known: Failures) -> str:
    if not known.control:
        return ""
    if blamed > 1 and known.upstream + known.device == blamed:
        share = {0: "none", blamed: "all"}.get(known.upstream, f"{known.upstream:,}")
        return f", {share} of them on {known.control} too"
    on = known.control
    kinds = {
        f"on {on} too": known.upstream,
        f"not on {on}": known.device,
        f"unclear on {on}": known.unclear,
        f"not tried on {on}": blamed - known.upstream - known.device - known.unclear,
    }
    said = [kind if blamed == 1 else f"{number:,} {kind}" for kind, number in kinds.items() if number]
    return f", {', '.join(said)}" if blamed == 1 else f" ({', '.join(said)})"


_SHOWN = 3
_INCOMPLETE = {
    Verdict.HARDWARE: "met a fault of the card",
    Verdict.INFRASTRUCTURE: "lost to infrastructure",
    Verdict.NOT_RUN: "not run",
}


def _with_lost(tries: Sequence[Try]) -> Sequence[Try]:
    """A job's tries with those that must have been, since a later one says so, and that nobody tells of."""
    last = max((one.number for one in tries if one.again), default=0)
    if not last:
        return tries
    # A lost worker is told of; a try without any end that had another ordered for its sake failed in a line
    # that is damaged.
    tries = [
        replace(one, outcome=Verdict.FAILED, message=LOST)
        if one.message == SILENT and one.number < last
        else one
        for one in tries
    ]
    told = {one.number for one in tries}
    # Another host's first try, begun for a second time here, may never have begun there.
    first = max((one.number for one in tries if not one.again and one.number < last), default=1)
    lost = [number for number in range(first, last) if number not in told]
    if not lost:
        return tries
    # First, as the sort is stable: what is known of a number is the later word on it.
    job = tries[0].job
    made = [Try(outcome=Verdict.FAILED, message=LOST, number=number, job=job) for number in lost]
    return sorted((*made, *tries), key=lambda one: one.number)


def _told_of(verdict: Verdict, tries: Sequence[Try]) -> Try:
    wanted = Verdict.FAILED if verdict is Verdict.FLAKY else verdict
    return next(one for one in reversed(tries) if one.outcome is wanted)


def _history(tries: Sequence[Try]) -> str:
    said = [
        f"attempt {number}: {one.outcome.words}" + (f": {one.message}" if one.message else "")
        for number, one in enumerate(tries, start=1)
    ]
    shown = 6  # a test that was started more often tells of its first and its last tries
    if len(said) > shown:
        said[shown - 1 : -1] = ["…"]
    return "; ".join(said)
