"""Inside a child: one file is set up, then exactly the tests that are ordered run, each event journalled.

Orders come over a pipe, whose end is the session's; when the file is set up, and after each order, an answer
goes back.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

import pytest
from _pytest.subtests import SubtestReport

from ci.record import events
from ci.record.events import JournalEvent
from ci.record.journal import EXIT_UNWRITABLE, UNWRITABLE, XPASS_STRICT, JournalWriter
from ci.runner.call_recorder import CallRecorder
from ci.runner.channel import Answer, Order, send
from ci.runner.child import last_lines
from ci.runner.enforce import SKIPPED_ITSELF, enforced, mark, seed_all, seeding_of
from ci.runner.orphans import LeakedResources
from ci.runner.prepared_parent import garbage_kept
from ci.runner.ras import RasEvent, hardware_event
from ci.runner.session import (
    could_not_read,
    identify,
    last_line,
    leave_out,
    print_logs,
    run_pytest,
    wanted_names,
)

# What tests print is kept while they run, for the case that they crash; this much of it at most.
LOG_LIMIT_BYTES = 1 << 20
DETAIL_LIMIT = 20_000
MESSAGE_LIMIT = 2_000
ENDED = "ended the session"


@dataclass(slots=True, kw_only=True)
class _Running:
    """The reports of the test that runs now."""

    id: str
    started: float
    log_start: int = 0
    unseeded: str = ""
    reports: list[pytest.TestReport] = field(default_factory=list)


class RunPlugin:
    """Selects, marks and records the tests of one group."""

    def __init__(self, spec: Mapping[str, Any], journal: JournalWriter) -> None:
        """Listen for orders.

        Args:
            spec: what the worker tells: `file`, `orders` and `answers` (descriptors of pipes), `log` (of what
                tests print), `wanted` (test ids besides which nothing will be asked for; None: anything
                may be), `seed` and `as_try`; `imports_s`, seconds that setting the file up took before.
            journal: takes every event.
        """
        self._seeding = seeding_of(spec)
        self._file, self._log = str(spec["file"]), Path(spec["log"])
        self._wanted = None if spec["wanted"] is None else wanted_names(spec["wanted"])
        self._journal = journal
        self._orders, self._answers = int(spec["orders"]), int(spec["answers"])
        self._items: dict[str, tuple[int, pytest.Item]] = {}
        self._ids: dict[str, str] = {}
        self._expectations: Mapping[str, Any] = {}
        self._try = 1
        self._running: _Running | None = None
        self._last: str | None = None
        self._sick = False
        self._session: pytest.Session | None = None
        self._started = time.perf_counter() - float(spec.get("imports_s", 0))
        self._setting_up = contextlib.ExitStack()
        self._setting_up.enter_context(garbage_kept())
        self._pid = os.getpid()
        self._leaks: LeakedResources | None = None
        self._calls: CallRecorder | None = None
        self.error: tuple[str, str] | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(self, obj: object) -> None:
        """Of classes that pytest is about to look into, pass by what is not wanted."""
        if self._wanted is not None:
            leave_out(obj, self._file, self._wanted)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep the first failure to import the file."""
        if report.failed and self.error is None:
            self.error = (last_line(report), report.longreprtext)

    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Keep what ended the session from within, such as `sys.exit` at import."""
        if self.error is None:
            self.error = (excinfo.exconly().strip(), str(excinfo.getrepr(style="short")))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note each test by its test id."""
        named, _ = identify(items, self._file)
        for place, (item, (name, _parts)) in enumerate(zip(items, named, strict=True)):
            self._items[name] = place, item
            self._ids[item.nodeid] = name

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Say how long the set-up took."""
        self._setting_up.close()
        print_logs(session, session.config.rootpath / self._file)
        setup_s = round(time.perf_counter() - self._started, 3)
        self._leaks = LeakedResources()
        self._calls = CallRecorder.of_this_process(os.environ)
        if self.error is None:
            self._write(events.GroupReady(file=self._file, setup_s=setup_s))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run what is ordered until there are no orders any more."""
        self._session = session
        if self.error is not None:
            return True
        self._answer("ready")
        for order in _orders(self._orders):
            self._run_order(session, order)
            self._answer("done")
        return True

    def _run_order(self, session: pytest.Session, order: Order) -> None:
        self._expectations = order.expectations
        self._try = order.attempt
        if gone := [name for name in order.ids if name not in self._items]:
            self._write(events.NotRun(ids=gone, message="the file no longer has this test; collect again"))
        items = self._in_order(order)
        for item, following in itertools.zip_longest(items, items[1:]):
            if (expected := self._expectations.get(self._ids[item.nodeid])) is not None:
                mark(item, expected)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._sick:
                return  # the card has failed: what is left is for another
            if reason := _stopped(session):
                raise session.Interrupted(reason)

    def _in_order(self, order: Order) -> list[pytest.Item]:
        """In source order, so that what tests of a class share is set up once; chains as they were given."""
        here = {name: self._items[name] for name in order.ids if name in self._items}
        units = [[here.pop(name) for name in chain if name in here] for chain in order.chains]
        units = [unit for unit in units if unit] + [[one] for one in here.values()]
        return [item for unit in sorted(units, key=lambda unit: unit[0][0]) for _, item in unit]

    def _answer(self, what: Literal["ready", "done"]) -> None:
        self._end_forks()
        self._say(Answer(what=what))

    def _say(self, answer: Answer) -> None:
        # A line of its own, whatever a test wrote to the pipe before it.
        send(self._answers, b"\n" + answer.line())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Run a test as its suite file has it."""
        with enforced(getattr(item, "instance", None), self._expected(item.nodeid)):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Note what setting a class up calls as called by each of its tests."""
        result = yield
        if self._calls is not None:
            self._calls.set_up(getattr(item, "cls", None))
        return result

    def _expected(self, nodeid: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._expectations.get(self._ids[nodeid], {})
        return found

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        start = _trim_log()
        self._running = _Running(id=self._ids[nodeid], started=time.perf_counter(), log_start=start)
        name = self._running.id
        seed, seeded_as = self._seeding.of(name, self._try), self._seeding.as_try.get(name)
        self._write(events.Start(id=name, log=start, number=self._try, seed=seed, seeded_as=seeded_as))
        # Behind the word that it began: should the device not come back from it, it is known where.
        if seed is not None:
            self._running.unseeded = seed_all(seed)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep each phase and each subtest."""
        self._end_forks()
        if self._running is not None:
            self._running.reports.append(report)

    def pytest_runtest_logfinish(self) -> None:
        """A test ended: one event with its outcome."""
        if self._running is not None:
            outcome, message, detail = outcome_of(self._running.reports)
            if (reason := _stopped(self._session)) and ENDED not in message:
                message = f"{message}; {ENDED}: {reason}".removeprefix("; ")
            mode = self._expectations.get(self._running.id, {}).get("mode")
            if outcome == "skipped" and mode == "mandatory_success":
                message = f"{SKIPPED_ITSELF}{message}"
            # An expected failure is one of the test's own, too: what a sick card fails says nothing of it.
            event = self._card_said(self._running) if outcome in {"failed", "xfailed"} else None
            if event is not None:
                self._sick = True
                outcome = "hardware"
                message = message if event.name in message else f"{message}; card message: {event}"
            self._ended(self._running, outcome, message, detail, ras=str(event or ""))

    def _card_said(self, running: _Running) -> RasEvent | None:
        """The event by which the card says that it failed, in what a test raised or printed."""
        raised = [str(one.longreprtext) for one in running.reports if not one.passed]
        printed = last_lines(self._log, None, start=running.log_start)
        return hardware_event("\n".join([printed, *raised]))

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """A test, or the file itself, ended the session with Ctrl-C's exception or `pytest.exit`."""
        wanted = isinstance(excinfo.value, pytest.Session.Interrupted)  # by what was said to the session
        said = f"{ENDED}: {excinfo.value if wanted else excinfo.exconly().strip()}"
        detail = str(excinfo.getrepr(style="short"))[-DETAIL_LIMIT:]
        if self._running is not None:
            self._ended(self._running, "failed", said, detail)
        elif self._last is not None:
            # The file is well: what is left of it is for a process whose session nobody ended.
            message = f"{self._last} {said}; what is left runs in a fresh process"
            self._write(events.Respawn(file=self._file, message=message, detail=detail))
        elif self.error is None:
            self.error = (said, detail)

    def _ended(self, running: _Running, outcome: str, message: str, detail: str, *, ras: str = "") -> None:
        if outcome == "failed" and self._journal.full:
            self._give_up()  # it may have failed for want of space, which says nothing of it
        self._running, self._last = None, running.id
        end = events.End(
            id=running.id,
            outcome=outcome,
            seconds=round(time.perf_counter() - running.started, 4),
            message=message[:MESSAGE_LIMIT],
            detail=detail,
            leak=self._leaks.look() if self._leaks is not None else "",
            unseeded=running.unseeded,
            ras=ras,
            ops=self._called(),
        )
        self._write(end)

    def _called(self) -> str:
        """The key of what the test called, whose set is written before it is first named."""
        if self._calls is None:
            return ""
        key, new = self._calls.of_test()
        if new is not None:
            self._write(events.OpSet(key=key, ops=new))
        return key

    def file_error(self) -> None:
        """Tell of what kept the file from being set up, if anything did."""
        if self.error is None:
            return
        message, detail = self.error
        if (event := hardware_event(f"{message}\n{detail}")) is not None:
            said = f"setting up {self._file}: card message: {event}"
            self._write(events.CardFault(message=said, ras=str(event), detail=detail[-DETAIL_LIMIT:]))
        else:
            self._write(events.FileError(file=self._file, message=message, detail=detail[-DETAIL_LIMIT:]))

    def _write(self, event: JournalEvent) -> None:
        self._end_forks()
        try:
            self._journal.write(event)
        except OSError as error:
            if error.errno not in UNWRITABLE:
                raise
            self._give_up()

    def _give_up(self) -> NoReturn:
        """The disk takes nothing more: no test is to run of which nobody can tell."""
        with contextlib.suppress(OSError):
            self._say(Answer(what="refused"))
        os._exit(EXIT_UNWRITABLE)

    def _end_forks(self) -> None:
        """End a process that a test forked and that came out of it: it would tell all twice."""
        if os.getpid() != self._pid:
            os._exit(1)


def outcome_of(reports: Sequence[Any]) -> tuple[str, str, str]:
    """A test's outcome, the line that says why, and the full text, from the reports of its phases.

    A failure in any phase or subtest fails the test. A report with `wasxfail` was declared to fail; a
    strict one that passed comes as a failure from pytest itself. Of subtests only failures count, as in
    pytest: one that skips itself skips nothing else. But where a test is declared to fail and a subtest of it
    does, it failed as declared, though its body came to its end.
    """
    whole = [one for one in reports if not isinstance(one, SubtestReport)]
    missed = next((one for one in reports if isinstance(one, SubtestReport) and _as_declared(one)), None)
    failed = next((one for one in reports if one.failed), None)
    if failed is not None and not (missed is not None and last_line(failed).startswith(XPASS_STRICT)):
        message = last_line(failed)
        if failed.when != "call":
            message = f"in {failed.when}: {message}"
        return "failed", message, str(failed.longreprtext)[-DETAIL_LIMIT:]
    declared = next((one for one in whole if getattr(one, "wasxfail", None) is not None), failed)
    if declared is not None:
        shown = missed or declared
        return ("xfailed" if missed or declared.skipped else "xpassed"), str(shown.wasxfail), ""
    skipped = next((one for one in whole if one.skipped), None)
    if skipped is not None:
        reason = skipped.longrepr[2] if isinstance(skipped.longrepr, tuple) else str(skipped.longrepr)
        return "skipped", str(reason).removeprefix("Skipped: "), ""
    if any(one.when == "call" for one in whole):
        return "passed", "", ""
    return "failed", "the test ended without a result", ""


def _as_declared(report: Any) -> bool:
    return bool(report.skipped) and getattr(report, "wasxfail", None) is not None


def run_group(spec: Mapping[str, Any]) -> int:
    """Set `spec["file"]` up and run what is ordered, writing to the journal at `spec["journal"]`."""
    file = str(spec["file"])
    # Its worker outlives it, so while it lives nobody else leaves half a line.
    journal = JournalWriter(Path(spec["journal"]), time.time, survivor=False)
    plugin = RunPlugin(spec, journal)
    tests = Path(spec["tests"])
    code = run_pytest(tests, file, plugin, collect_only=False)
    if code == pytest.ExitCode.USAGE_ERROR and plugin.error is None:
        plugin.error = (could_not_read(tests, file), "")
    plugin.file_error()
    return 0


def _stopped(session: pytest.Session | None) -> str:
    """Why a test, or what it had pytest do, wants the session to end after it."""
    return str((session and (session.shouldfail or session.shouldstop)) or "")


def _orders(descriptor: int) -> Iterator[Order]:
    rest = b""
    while data := os.read(descriptor, 1 << 16):
        *lines, rest = (rest + data).split(b"\n")
        yield from map(Order.read, lines)


def _trim_log() -> int:
    """Start the log anew between tests once it is long: only the running test's output is ever needed.

    Returns:
        Where the next output goes, in bytes.
    """
    try:
        if (size := os.fstat(1).st_size) <= LOG_LIMIT_BYTES:
            return size
        os.ftruncate(1, 0)
    except OSError:
        pass  # a test closed or replaced its standard output, which is its own business
    return 0
