"""Bisecting: from a test and two ends to the commit that broke it; it can be left at any moment."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from ci.bisect.asking import Limits, finding, rounds_expected
from ci.bisect.builders import BUILDERS, Plan
from ci.bisect.commits import About, about, check_repository, line_between, resolve
from ci.bisect.ends import Ends, choose_ends, counted_outcome, require
from ci.bisect.executors import MARK, RunnerHands, end_left
from ci.bisect.record import FILE, Question, Record, read_record, write_record
from ci.bisect.search import Search, timed
from ci.bisect.text import FILE as PAGE_FILE
from ci.bisect.text import issue_text, render, result_lines, result_of, round_lines
from ci.bisect.trees import Trees, remove
from ci.core.errors import (
    EXIT_INCOMPLETE,
    EXIT_OK,
    EXIT_TEST_FAILED,
    MissingInputError,
    UsageError,
)
from ci.core.locks import run_lock
from ci.core.text import counted, one_line
from ci.core.withheld import without_job_secrets
from ci.report.history import past_outcomes
from ci.steps.context import Context
from ci.steps.folder import find_run
from test_selection.files import write_text
from test_selection.ids import file_of

ISSUE_FILE = "issue.md"
# Of a search's folder, what goes when it ends.
_WORK = "work"
# Of so many candidates a record says who wrote what.
_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the user asked for; None where settings or the history decide.

    Attributes:
        test: its canonical id; None with `resume`.
        source: the clone.
        good: a commit on which it passed.
        bad: a commit on which it fails.
        absent: what a commit without the test counts as, `good` or `skip`.
        resume: a search that goes on: its folder, id or `latest`.
        fresh: begin anew, whatever is known.
        dry_run: say what would be done.
    """

    test: str | None
    source: str | None = None
    good: str | None = None
    bad: str | None = None
    absent: str = "skip"
    resume: str | None = None
    fresh: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a search ended: its exit code, record and folder."""

    exit_code: int
    record: Record
    folder: Path


def bisect_step(context: Context, wanted: Wanted) -> Outcome:
    """Search, or go on searching.

    Raises:
        SpyreCiError: something the user can mend.
        KeyboardInterrupt: it was interrupted; the same command goes on.
    """
    folder, question = _asked(context, wanted)
    folder = folder.resolve()
    if wanted.dry_run:
        record = _begun(context, question)
        _say_plan(context, record)
        return Outcome(exit_code=EXIT_OK, record=record, folder=folder)
    # Before anything is made: what cannot be begun leaves nothing.
    known = read_record(folder) if (folder / FILE).is_file() and not wanted.fresh else None
    begun = _anew(context, question, known, wanted)
    with run_lock(folder, alone=True):
        record = _record(context, folder, begun)
        if record.result is None or _asks_more(record, limits_of(context)):
            record.result = None
            _search(context, folder, record)
        else:
            context.say("searched before; --fresh begins anew")
        for line in result_lines(record):
            context.say(line)
        context.say(f"issue text: {folder / ISSUE_FILE}; report: {folder / PAGE_FILE}")
    return Outcome(exit_code=exit_code(record), record=record, folder=folder)


def _anew(context: Context, question: Question, known: Record | None, wanted: Wanted) -> Record | None:
    """A search that begins; None where the known one stands.

    One that has ended does not where its ends are other commits now, as a branch or the history moved on.
    """
    if known is not None and (known.result is None or wanted.resume is not None):
        return None
    begun = _begun(context, question)
    return None if known is not None and _ends_of(known) == _ends_of(begun) else begun


def _ends_of(record: Record) -> tuple[str, str]:
    return record.commits[0], record.commits[-1]


def _asks_more(record: Record, limits: Limits) -> bool:
    """Whether a search that has ended goes on: it was not clear, or more certainty is asked for now."""
    result = record.result or {}
    return not result.get("sure") or limits.confidence > result["confidence"]


def exit_code(record: Record) -> int:
    """0 for a commit; 1 where none between the ends broke it; 3 where it is not clear."""
    result = record.result
    if result is None or not result["sure"] or result["kind"] == "range":
        return EXIT_INCOMPLETE
    return EXIT_OK if result["kind"] == "found" else EXIT_TEST_FAILED


def limits_of(context: Context) -> Limits:
    """How far the settings let a search go."""
    settings = context.settings.model.bisect
    return Limits(confidence=settings.confidence, per_visit=settings.tries, in_all=settings.tries_in_all)


def _asked(context: Context, wanted: Wanted) -> tuple[Path, Question]:
    """The folder of the search, and its question."""
    if wanted.resume is not None:
        if wanted.fresh or wanted.test or wanted.good or wanted.bad:
            raise UsageError(
                "--resume is given with a test, an end or --fresh",
                remedy="leave them out: the record has them",
            )
        folder = _past(context, wanted.resume)
        return folder, read_record(folder).question
    if not wanted.test:
        raise UsageError("no test is named", remedy="name its canonical id, as a report has it, or --resume")
    file_of(wanted.test)
    settings = context.settings.model
    question = Question(
        test=wanted.test,
        device=settings.device.name,
        builder=settings.bisect.builder,
        repository=str(_repository(context, wanted.source)),
        good=wanted.good or "",
        bad=wanted.bad or "",
        absent=wanted.absent,
    )
    said = "\0".join(f"{name}={value}" for name, value in asdict(question).items())
    key = hashlib.sha256(said.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return context.runs / f"bisect-{key}", question


def _past(context: Context, named: str) -> Path:
    if named == "latest":
        past = list(context.runs.glob(f"bisect-*/{FILE}"))
        if not past:
            raise MissingInputError("there is no bisect yet", where=context.runs, remedy="begin one first")
        return max(past, key=lambda path: path.stat().st_mtime_ns).parent
    return find_run(context.runs, named, holding=FILE).path


def _repository(context: Context, source: str | None) -> Path:
    settings = context.settings.model
    named: Path | None
    if source is not None:
        named = Path(source).expanduser()
    elif settings.bisect.repository is not None:
        named = context.settings.resolve(settings.bisect.repository)
    else:
        named = None if settings.pytorch.source is None else Path(settings.pytorch.source).expanduser()
    said = source or settings.pytorch.source or ""
    if named is None or said.startswith("git+"):
        raise UsageError(
            "no clone of PyTorch is named" if named is None else f"{one_line(said)} is no clone here",
            where="--pytorch-src",
            remedy="clone it with its history, and name the folder with --pytorch-src or bisect.repository",
        )
    folder = named.resolve()
    check_repository(folder)
    return folder


def _record(context: Context, folder: Path, begun: Record | None) -> Record:
    """The record that goes on, or that of a search that begins."""
    if begun is None:
        record = read_record(folder)
        if record.result is None:
            context.say(f"going on: {counted(len(record.tries), 'try', 'tries')} were made; {folder}")
        return record
    for name in (ISSUE_FILE, PAGE_FILE):
        (folder / name).unlink(missing_ok=True)
    write_record(folder, begun)
    _say_plan(context, begun)
    return begun


def _begun(context: Context, question: Question) -> Record:
    """A search that knows its ends and no more."""
    repository = Path(question.repository)
    past = _ends(context, question)
    good = resolve(repository, question.good or past.good, flag="--good" if question.good else "history")
    bad = resolve(repository, question.bad or past.bad, flag="--bad" if question.bad else "history")
    line = line_between(repository, good, bad)
    history = {}
    if line.commits[0] == good and past.good == good and past.seen_good.tries:
        history[0] = past.seen_good
    if past.bad == bad and past.seen_bad.tries:
        history[len(line.commits) - 1] = past.seen_bad
    return Record(question=question, commits=line.commits, notes=list(line.notes), history=history)


def _ends(context: Context, question: Question) -> Ends:
    """What the history knows of the ends; it has to know those that are not named."""
    lane = context.settings.model.bisect.lane
    named = bool(question.good and question.bad)
    if named and not context.history.there:
        return Ends()
    seen = past_outcomes(context.history, test=question.test, device=question.device, lane=lane)
    found = choose_ends((one.sha, counted_outcome(one.verdict, one.attempts)) for one in seen)
    if not named:
        asked = Ends(good=question.good or found.good, bad=question.bad or found.bad)
        require(asked, test=one_line(question.test), lane=lane)
    return found


def _say_plan(context: Context, record: Record) -> None:
    workers = context.settings.model.bisect.workers
    for note in record.notes:
        context.say(note)
    context.say(
        f"{counted(record.last, 'candidate')} from {record.commits[0][:12]} to {record.commits[-1][:12]}: "
        f"about {counted(rounds_expected(record.last, workers), 'round')} with "
        f"{counted(workers, 'worker')}, more where the test is flaky"
    )


def _search(context: Context, folder: Path, record: Record) -> None:
    settings, stop = context.settings.model.bisect, threading.Event()
    if record.question.builder != "checkout" and not settings.command:
        raise UsageError(
            f"the search was begun with builder {record.question.builder}, and no command builds now",
            where="bisect.command",
            remedy="set it as it was, or begin anew with another --builder",
        )
    limits = limits_of(context)
    hands = _hands(context, folder, record, stop)
    lock = threading.Lock()

    def say(line: str) -> None:
        with lock:
            context.say(one_line(line) if not line.startswith(" ") else f"  {one_line(line)}")

    def drawn(now: Record) -> None:
        for line in round_lines(now):
            context.say(line)

    search = Search(
        record=record,
        hands=hands,
        limits=limits,
        workers=settings.workers,
        save=lambda now: write_record(folder, now),
        told=say,
        drawn=drawn,
        clock=context.clock,
        stop=stop,
    )
    try:
        with timed(record, context.monotonic):
            search.run()
    finally:
        end_left(folder)
        remove(folder / _WORK)
    _conclude(record, folder, limits)


def _hands(context: Context, folder: Path, record: Record, stop: threading.Event) -> RunnerHands:
    """Who tries commits, where nothing is left of what tried them before."""
    settings = context.settings.model.bisect
    plan = Plan(
        command=settings.command,
        cache=context.state("bisect"),
        keep=settings.keep_wheels,
        image=settings.image,
        environ={**without_job_secrets(context.environ), MARK: str(folder)},
        timeout_s=settings.build_timeout_s,
        stop=stop.is_set,
    )
    end_left(folder)
    return RunnerHands(
        context=context.on_device(record.question.device),
        test=record.question.test,
        commits=record.commits,
        trees=Trees(folder / _WORK, Path(record.question.repository)),
        builder=BUILDERS[record.question.builder](plan),
        folder=folder,
        stop=stop,
    )


def _conclude(record: Record, folder: Path, limits: Limits) -> None:
    """Write what it came to: into the record, as an issue's text and as a page."""
    found = finding(record.belief(), limits)
    shown = [] if found.kind in {"never", "before"} else record.commits[found.first : found.last + 1][:_SHOWN]
    abouts: list[About] = [about(Path(record.question.repository), sha) for sha in shown]
    record.result = result_of(record, found, confidence=limits.confidence, about=abouts)
    write_text(folder / ISSUE_FILE, issue_text(record))
    write_text(folder / PAGE_FILE, render(record))
    write_record(folder, record)
