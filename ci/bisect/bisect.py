"""Bisecting: from a test and two ends to the commit that broke it; it can be interrupted at any moment."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ci.bisect.belief import Belief
from ci.bisect.executor import Executor
from ci.bisect.record import FILE, Record, Result, read_record, write_record
from ci.bisect.report import issue_text, result_lines
from ci.bisect.repository import SHA, candidate, commits_between, resolve
from ci.bisect.search import Search
from ci.core.errors import EXIT_INCOMPLETE, EXIT_OK, EXIT_TEST_FAILED, UsageError
from ci.core.locks import run_lock
from ci.core.text import counted, one_line
from ci.record.verdict import CODE_FAILED, CODE_PASSED
from ci.report.history import past_outcomes
from ci.steps.context import Context
from test_selection.files import write_text
from test_selection.ids import file_of

ISSUE_FILE = "issue.md"
# Commits that a result lists.
LISTED = 20
# Runs in a row that passed, which make a good end: a flaky test may pass once or twice by luck.
_CLEAR = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The user's request; None where settings or the history decide."""

    test: str | None
    source: str | None = None
    good: str | None = None
    bad: str | None = None
    fresh: bool = False
    dry_run: bool = False


def bisect_step(context: Context, request: Request) -> tuple[int, Record]:
    """Search, or go on with the same search: the exit code and the record.

    Raises:
        SpyreCiError: something the user can fix.
        KeyboardInterrupt: the same command resumes.
    """
    record = _requested(context, request)
    key = hashlib.sha256(repr(record).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    folder = (context.runs / f"bisect-{key}").resolve()
    known = read_record(folder) if (folder / FILE).is_file() and not request.fresh else None
    _find_ends(context, record)  # before anything is written
    if known is not None and (known.result is None or _ends(known) == _ends(record)):
        record = known
    _say_plan(context, record)
    if request.dry_run:
        return EXIT_OK, record
    with run_lock(folder, alone=True):
        result, confidence = record.result, context.settings.model.bisect.confidence
        if result is None or not result.sure or result.confidence < confidence:
            record.result = None
            result = _search(context, folder, record)
        for line in [*result_lines(record, result), f"issue text: {folder / ISSUE_FILE}"]:
            context.say(line)
    return exit_code(result), record


def exit_code(result: Result) -> int:
    """0 for a commit; 1 where none between the ends broke it; 3 where it is not clear."""
    if not result.sure or result.kind == "range":
        return EXIT_INCOMPLETE
    return EXIT_OK if result.kind == "found" else EXIT_TEST_FAILED


def choose_ends(outcomes: Iterable[tuple[str, bool]]) -> tuple[str, str]:
    """The good and the bad end in a history of commits that passed or failed, oldest first; else empty. Pure.

    Runs after the last failure are left out, since something fixed the test. The good end is the last of the
    latest three passes in a row before that, else the oldest pass.
    """
    rows = [(sha, passed) for sha, passed in outcomes if SHA.fullmatch(sha)]
    passes = [at for at, (_, passed) in enumerate(rows) if passed]
    failures = [at for at, (_, passed) in enumerate(rows) if not passed]
    if not failures:
        return (rows[-1][0] if rows else ""), ""
    before = [at for at in passes if at < failures[-1]]
    clear = [at for at in before if {*range(at - _CLEAR + 1, at)} <= {*before}]
    good = max(clear, default=min(before, default=-1))
    bad = next(at for at in failures if at > good)
    return (rows[good][0] if good >= 0 else ""), rows[bad][0]


def _requested(context: Context, request: Request) -> Record:
    """The record of a new search, without commits."""
    settings = context.settings
    if not request.test:
        raise UsageError("no test is named", remedy="give its test id as a report shows it")
    file_of(request.test)
    clone = request.source or str(settings.model.bisect.repository or settings.model.pytorch.source or "")
    if not clone or clone.startswith("git+"):
        raise UsageError(
            "no clone of PyTorch is named",
            where="--pytorch-src",
            remedy="clone it with its history, and name the folder with --pytorch-src or bisect.repository",
        )
    path = settings.resolve(Path(clone)) if request.source is None else Path(clone)
    return Record(
        test=request.test,
        device=settings.model.device.name,
        builder=settings.model.bisect.builder,
        repository=str(path.expanduser().resolve()),
        good=request.good or "",
        bad=request.bad or "",
    )


def _ends(record: Record) -> tuple[str, str]:
    return record.commits[0], record.commits[-1]


def _find_ends(context: Context, record: Record) -> None:
    """Fill in the commits, between ends that are named or that the history knows."""
    names = {"--good": record.good, "--bad": record.bad}
    if not all(names.values()):
        lane = context.settings.model.bisect.lane
        seen = past_outcomes(context.history, test=record.test, device=record.device, lane=lane)
        known = CODE_PASSED | CODE_FAILED | {"flaky"}  # a flaky test failed
        found = choose_ends((one.sha, one.verdict in CODE_PASSED) for one in seen if one.verdict in known)
        for flag, past in zip(names, found, strict=True):
            names[flag] = names[flag] or past
            if not names[flag]:
                raise UsageError(
                    f"no run of schedule {lane!r} shows where {one_line(record.test)} "
                    + ("passed" if flag == "--good" else "failed"),
                    where=flag,
                    remedy=f"name a commit with {flag}, or another schedule with bisect.lane",
                )
    clone = Path(record.repository)
    good, bad = (resolve(clone, name, flag=flag) for flag, name in names.items())
    record.commits = commits_between(clone, good, bad)
    if record.commits[0] != good:
        context.say(f"{good[:12]} is on another branch; the search starts where that branched off")


def _say_plan(context: Context, record: Record) -> None:
    workers, left = context.settings.model.bisect.workers, counted(record.last, "candidate")
    rounds = 1 + math.ceil(math.log(max(record.last / workers, 1), workers + 1))
    about = f"about {counted(rounds, 'round')} with {counted(workers, 'worker')}, more if the test is flaky"
    context.say(f"{left} from {record.commits[0][:12]} to {record.commits[-1][:12]}: {about}")
    if record.tries:
        context.say(f"{counted(len(record.tries), 'try', 'tries')} made before; --fresh starts again")


def _search(context: Context, folder: Path, record: Record) -> Result:
    """Search, and write the result into the record and as an issue's text."""
    write_record(folder, record)
    executor = Executor(context.on_device(record.device), record, folder)
    search = Search(
        record=record,
        executor=executor,
        settings=context.settings.model.bisect,
        save=lambda: write_record(folder, record),
        say=lambda line: context.say(one_line(line)),
    )
    try:
        belief = search.run()
    finally:
        executor.end()
    record.result = result_of(record, belief)
    write_text(folder / ISSUE_FILE, issue_text(record, record.result))
    write_record(folder, record)
    return record.result


def result_of(record: Record, belief: Belief) -> Result:
    """The result of a search, with what the clone says about the candidates."""
    kind, first, last, probability = belief.finding()
    commits = record.commits[first : last + 1] if kind in {"found", "range"} else []
    return Result(
        kind=kind,
        sure=bool(record.tries) and probability >= belief.limits.confidence,
        confidence=belief.limits.confidence,
        probability=probability,
        count=len(commits),
        candidates=[candidate(Path(record.repository), sha) for sha in commits[:LISTED]],
    )
