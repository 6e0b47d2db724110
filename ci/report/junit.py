"""JUnit: one file a shard, as Jenkins, GitHub and HUD read it.

What HUD's rows need: every failure, error and skip has a `message` (without it the test counts as
passed), every test case has a `file`, and at most one `<property>` (more reject the whole file): it holds
the canonical id. A test without a pass of its own can not pass as green: hardware, infrastructure and
not_run are errors of that type.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import IO, NamedTuple

import junitparser
from junitparser.junitparser import Attr, Element, Properties, Property
from junitparser.junitparser import Result as Outcome

from ci.core.text import clean, clip, iso_utc, one_line, plain, tail
from ci.record.identity import EMULATED, MAX_COMMAND, RunIdentity, command_of
from ci.record.result import Result
from ci.record.verdict import FAILING, Verdict
from ci.report.reconcile import Account
from test_selection.files import atomic_writer
from test_selection.ids import encode_file

MAX_DETAIL = 64 * 1024
CASES_AT_A_TIME = 1000
_DECLARATION, _END = b"<?xml version='1.0' encoding='UTF-8'?>\n", b"</testsuite>"


class ShardCases(NamedTuple):
    """What one JUnit file holds."""

    shard: int
    host: str
    started_at: float
    results: list[Result]


class TestCase(junitparser.TestCase):
    """A test case with its file, which HUD's rows are keyed by."""

    __test__ = False
    file = Attr()


class Rerun(Outcome):
    """A try that failed before a later one passed, as pytest-rerunfailures and HUD write it."""

    _tag = "rerun"  # type: ignore[assignment]  # the library's own subclasses do the same


def write_junit(folder: Path, account: Account, identity: RunIdentity) -> None:
    """Write `<shard>.xml` for every shard into `folder`; every planned test stands in exactly one."""
    for cases in shard_cases(account, identity):
        with atomic_writer(folder / f"{cases.shard}.xml") as stream:
            write_suite(stream, cases, identity)


def write_suite(stream: IO[bytes], cases: ShardCases, identity: RunIdentity) -> None:
    """Write one shard of a run as a test suite, some cases at a time: as an element, each takes 2 KB."""
    suite = junitparser.TestSuite(clean(f"{identity.run} shard {cases.shard}"))
    suite.hostname = clean(cases.host)
    suite.timestamp = iso_utc(cases.started_at)
    if identity.back_end == EMULATED:
        suite.add_property("emulated", "no card was tested")
    suite.add_testcases([])  # counts none
    seconds, texts = 0.0, []
    for first in range(0, len(cases.results), CASES_AT_A_TIME):
        some = junitparser.TestSuite()
        # One by one, add_testcase would count all test cases again each time.
        some.add_testcases([_case(one, identity) for one in cases.results[first : first + CASES_AT_A_TIME]])
        for count in ("tests", "errors", "failures", "skipped"):
            setattr(suite, count, getattr(suite, count) + getattr(some, count))
        seconds += some.time
        texts.append(_text(some).partition(b">")[2].removesuffix(_END))
    suite.time = round(seconds, 3)
    head = _text(suite)
    head = head.removesuffix(_END) if head.endswith(_END) else head.removesuffix(b"/>").rstrip() + b">"
    stream.writelines((_DECLARATION, head, *texts, _END))


def _text(suite: junitparser.TestSuite) -> bytes:
    return bytes(suite.tostring())  # type: ignore[no-untyped-call]  # the library annotates only a part


def shard_cases(account: Account, identity: RunIdentity) -> list[ShardCases]:
    """Each test with the shard it ran on, else with the one it was planned for."""
    by_shard: dict[int, list[Result]] = {shard: [] for shard in account.expected_s}
    for result in account.results:
        by_shard.setdefault(result.shard or 0, []).append(result)
    last = {line.shard: line for line in account.timelines}
    return [
        ShardCases(
            shard=shard,
            host=last[shard].host if shard in last else "",
            started_at=last[shard].started_at if shard in last else identity.started_at,
            results=results,
        )
        for shard, results in sorted(by_shard.items())
    ]


def split_id(name: str, file: str) -> tuple[str, str]:
    """Class (empty for a plain function) and name with parameters, of a canonical id of `file`."""
    rest = name.removeprefix(f"{encode_file(file)}::")
    head, bracket, parameters = rest.partition("[")
    owner, _, template = head.rpartition("::")
    return owner, template + bracket + parameters


def _case(result: Result, identity: RunIdentity) -> junitparser.TestCase:
    owner, name = split_id(result.id, result.file)
    case = TestCase(clean(name), clean(owner or result.file), round(result.seconds, 3))
    case.file = clean(result.file)
    properties = Properties()  # type: ignore[no-untyped-call]  # the library annotates only a part
    properties.add_property(Property("id", clean(result.id)))
    _append(case, properties)
    for outcome in _outcomes(result):
        if result.verdict in FAILING | {Verdict.FLAKY}:
            command = clip(command_of(result, identity), MAX_COMMAND)
            outcome.text = "\n\n".join([*filter(None, [outcome.text]), f"reproduce: {command}"])
        _append(case, outcome)
    said = [f"{key}: {value}" for key, value in _notes(result)]
    if said:
        case.system_out = plain("\n".join(said))
    return case


def _append(parent: Element, child: Element) -> None:
    parent.append(child)  # type: ignore[no-untyped-call]  # the library annotates only a part


def _outcomes(result: Result) -> Iterable[Outcome]:
    """The child element of a verdict that is not a plain pass."""
    if result.forgiven:
        # As pytest writes an xfail: readers that redden a build on failures do not on this one, and the
        # failure's own text is still there.
        yield _told(junitparser.Skipped(_message(result), "pytest.xfail"), result)
        return
    message = _message(result)
    made: Outcome
    match result.verdict:
        case Verdict.PASSED | Verdict.XPASSED:
            return
        case Verdict.SKIPPED:
            made = junitparser.Skipped(message, "pytest.skip")
        case Verdict.XFAILED:
            made = junitparser.Skipped(message, "pytest.xfail")
        case Verdict.FLAKY:
            made = Rerun(message, clean(result.cause or "failed"))
        case Verdict.FAILED if result.cause:
            made = junitparser.Error(message, clean(result.cause))
        case Verdict.FAILED:
            made = junitparser.Failure(message, "failed")
        case _:
            made = junitparser.Error(message, result.verdict.value)
    yield _told(made, result)


def _message(result: Result) -> str:
    """The line that says why; never empty, for without one HUD's rows take a test for passed."""
    message = one_line(result.message, 1000) or result.verdict.words
    if result.upstream and result.control is not None:
        message = f"on {result.control.device} too: {message}"
    return one_line(f"quarantined: {result.quarantine}: {message}", 2000) if result.forgiven else message


def _told(outcome: Outcome, result: Result) -> Outcome:
    """The outcome with the full text; of what is upstream's, with that of the control device as well."""
    texts = [tail(plain(result.detail), MAX_DETAIL)] if result.detail else []
    if result.upstream and result.control is not None and result.control.detail:
        texts.append(f"on {result.control.device}:\n{tail(plain(result.control.detail), MAX_DETAIL)}")
    if texts:
        outcome.text = "\n\n".join(texts)
    return outcome


def _notes(result: Result) -> Iterable[tuple[str, object]]:
    if result.card:
        yield "card", result.card
    if result.attempts > 1:
        yield "attempts", result.attempts
    if result.expectation:
        yield "expected", result.expectation
    if result.verdict is Verdict.XPASSED or result.forgiven:
        yield "verdict", result.verdict
    if result.quarantine is not None:
        yield "quarantined", result.quarantine
    if result.control is not None:
        yield "upstream", {"upstream": "yes", "device": "no"}.get(result.control.whose, "unclear")
        yield "control", result.control
    if result.message and result.verdict is Verdict.PASSED:
        yield "message", result.message
