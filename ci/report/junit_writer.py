"""JUnit: one file a shard, as Jenkins, GitHub and HUD read it.

What HUD's rows need: every failure, error and skip has a `message` (without it the test counts as
passed), every test case has a `file`, and at most one `<property>` (more reject the whole file): it holds
the test id. A test without a pass of its own can not pass as green: hardware, infrastructure and
not_run are errors of that type.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import IO, NamedTuple
from xml.etree.ElementTree import Element, SubElement

from ci.core.text import clean, clip, iso_utc, one_line, plain, tail
from ci.record.identity import EMULATED, MAX_COMMAND, RunIdentity, command_of
from ci.record.result import Result
from ci.record.verdict import FAILING, Verdict
from ci.report.reconcile import Account
from test_selection.files import atomic_writer
from test_selection.ids import encode_file

MAX_DETAIL = 64 * 1024
_DECLARATION = b"<?xml version='1.0' encoding='UTF-8'?>\n"
# What XML cannot hold as it is in a text, and in an attribute.
_IN_TEXT, _IN_ATTRIBUTE = re.compile("[&<>]"), re.compile('[&<>"\r\n\t]')
_ENTITIES = {
    "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#13;", "\n": "&#10;", "\t": "&#09;",
}  # fmt: skip


class ShardCases(NamedTuple):
    """What one JUnit file holds."""

    shard: int
    host: str
    started_at: float
    results: list[Result]


def write_junit(folder: Path, account: Account, identity: RunIdentity) -> None:
    """Write `<shard>.xml` for every shard into `folder`; every planned test stands in exactly one."""
    for cases in shard_cases(account, identity):
        with atomic_writer(folder / f"{cases.shard}.xml") as stream:
            write_suite(stream, cases, identity)


def write_suite(stream: IO[bytes], cases: ShardCases, identity: RunIdentity) -> None:
    """Write one shard of a run as a test suite, of which no more than a case at a time is an element."""
    counts, texts = Counter[str](), []
    for result in cases.results:
        case = _case(result, identity)
        counts.update(child.tag for child in case)
        texts.append(_bytes(_text(case)))
    suite = Element(
        "testsuite",
        name=clean(f"{identity.run} shard {cases.shard}"),
        hostname=clean(cases.host),
        timestamp=iso_utc(cases.started_at),
        tests=str(len(texts)),
        errors=str(counts["error"]),
        failures=str(counts["failure"]),
        skipped=str(counts["skipped"]),
        time=str(round(sum(round(one.seconds, 3) for one in cases.results), 3)),
    )
    if identity.back_end == EMULATED:
        _add_property(suite, "emulated", "no card was tested")
    head = f"{_opening(suite)}>{''.join(map(_text, suite))}"
    stream.writelines((_DECLARATION, _bytes(head), *texts, b"</testsuite>"))


def _opening(element: Element) -> str:
    given = (f' {name}="{_escaped(_IN_ATTRIBUTE, value)}"' for name, value in element.items())
    return f"<{element.tag}{''.join(given)}"


def _text(element: Element) -> str:
    """An element as XML, in a quarter of the time ElementTree takes; an empty one ends as pytest ends it."""
    inside = _escaped(_IN_TEXT, element.text or "") + "".join(map(_text, element))
    return f"{_opening(element)}>{inside}</{element.tag}>" if inside else f"{_opening(element)}/>"


def _escaped(unfit: re.Pattern[str], text: str) -> str:
    return unfit.sub(lambda found: _ENTITIES[found[0]], text) if unfit.search(text) else text


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "xmlcharrefreplace")


def _add_property(parent: Element, name: str, value: str) -> None:
    SubElement(SubElement(parent, "properties"), "property", name=name, value=value)


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
    """Class (empty for a plain function) and name with parameters, of a test id of `file`."""
    rest = name.removeprefix(f"{encode_file(file)}::")
    head, bracket, parameters = rest.partition("[")
    owner, _, template = head.rpartition("::")
    return owner, template + bracket + parameters


def _case(result: Result, identity: RunIdentity) -> Element:
    owner, name = split_id(result.id, result.file)
    case = Element(
        "testcase",
        name=clean(name),
        classname=clean(owner or result.file),
        time=str(round(result.seconds, 3)),
        file=clean(result.file),
    )
    _add_property(case, "id", clean(result.id))
    for outcome in _outcomes(result):
        if result.verdict in FAILING | {Verdict.FLAKY}:
            command = clip(command_of(result, identity), MAX_COMMAND)
            outcome.text = "\n\n".join([*filter(None, [outcome.text]), f"reproduce: {command}"])
        case.append(outcome)
    said = [f"{key}: {value}" for key, value in _notes(result)]
    if said:
        SubElement(case, "system-out").text = plain("\n".join(said))
    return case


def _outcomes(result: Result) -> Iterable[Element]:
    """The child element of a verdict that is not a plain pass."""
    if result.forgiven:
        # As pytest writes an xfail: readers that redden a build on failures do not on this one, and the
        # failure's own text is still there.
        yield _told(Element("skipped", message=_message(result), type="pytest.xfail"), result)
        return
    message = _message(result)
    made: Element
    match result.verdict:
        case Verdict.PASSED | Verdict.XPASSED:
            return
        case Verdict.SKIPPED:
            made = Element("skipped", message=message, type="pytest.skip")
        case Verdict.XFAILED:
            made = Element("skipped", message=message, type="pytest.xfail")
        case Verdict.FLAKY:
            # A try that failed before a later one passed, as pytest-rerunfailures and HUD write it.
            made = Element("rerun", message=message, type=clean(result.cause or "failed"))
        case Verdict.FAILED if result.cause:
            made = Element("error", message=message, type=clean(result.cause))
        case Verdict.FAILED:
            made = Element("failure", message=message, type="failed")
        case _:
            made = Element("error", message=message, type=result.verdict.value)
    yield _told(made, result)


def _message(result: Result) -> str:
    """The line that says why; never empty, for without one HUD's rows take a test for passed."""
    message = one_line(result.message, 1000) or result.verdict.words
    if result.upstream and result.control is not None:
        message = f"on {result.control.device} too: {message}"
    return one_line(f"quarantined: {result.quarantine}: {message}", 2000) if result.forgiven else message


def _told(outcome: Element, result: Result) -> Element:
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
