"""Reading JUnit of any runner: pytest, pytest-xdist, unittest-xml-reporting, and our own.

The file is another's word: it is read as a stream, and entities are refused.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol
from xml.etree.ElementTree import Element, ParseError, TreeBuilder  # the parser is defusedxml's

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser, iterparse

from ci.core.errors import BadFileError
from ci.core.text import one_line

# What reading a broken file raises, gzip's faults among it.
UNREADABLE = (EOFError, zlib.error, gzip.BadGzipFile, ValueError)
NO_MESSAGE = "no message"
# Runners' words for a test that they did not run.
_NOT_RUN = frozenset({"notrun", "skipped", "suppressed", "disabled"})
# What one element may have: the whole of it is in memory, in the worst case twenty times over.
MOST_ELEMENT = 16 * 1024 * 1024
# Of attributes a parser makes twenty times as much.
MOST_TAG = 2 * 1024 * 1024
PIECE = 256 * 1024
DEEPEST = 64
MOST_INSIDE = 10_000
MOST_OUTSIDE = 1_000_000


class Source(Protocol):
    """Where bytes of a file come from."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to so many bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What became of a test case.

    Attributes:
        name: class and name.
        became: passed, failed (which an error is too) or skipped.
        message: why it failed.
    """

    name: str
    became: Literal["passed", "failed", "skipped"]
    message: str = ""


@dataclass(slots=True, kw_only=True)
class Counts:
    """What became of test cases, of one file or of several.

    Attributes:
        passed: how many did.
        failed: how many have a failure or an error.
        skipped: how many were.
        failing: name and message of the first of those that failed.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failing: list[str] = field(default_factory=list)

    @property
    def tests(self) -> int:
        """All of them."""
        return self.passed + self.failed + self.skipped

    def __str__(self) -> str:
        return f"{self.passed:,} passed, {self.failed:,} failed, {self.skipped:,} skipped"

    def add(self, path: Path, *, name: str, most_named: int) -> None:
        """Count the test cases of a file; of one that is damaged, those before the damage.

        Args:
            path: of the file.
            name: of the file, for errors.
            most_named: of the tests that failed.

        Raises:
            BadFileError: see `junit_cases`.
        """
        with path.open("rb") as stream:
            for element, _ in junit_cases(stream, name=name):
                case = case_of(element)
                self.passed += case.became == "passed"
                self.failed += case.became == "failed"
                self.skipped += case.became == "skipped"
                if case.became == "failed" and len(self.failing) < most_named:
                    self.failing.append(one_line(f"{case.name}: {case.message}", 400))


def case_of(element: Element) -> Case:
    """What became of a test case of `junit_cases`."""
    name = "::".join(filter(None, (element.get("classname"), element.get("name"))))
    bad = element.find("failure")
    bad = element.find("error") if bad is None else bad
    if bad is not None:
        return Case(name=name, became="failed", message=message_of(bad))
    skipped = element.find("skipped") is not None or left_out(element)
    return Case(name=name, became="skipped" if skipped else "passed")


def left_out(element: Element) -> set[str]:
    """The words by which a test case says that it never ran, as GoogleTest does; empty where it has none."""
    return {element.get("status", "").lower(), element.get("result", "").lower()} & _NOT_RUN


def message_of(outcome: Element) -> str:
    """What an outcome says: its message, else the first line of its text, else its type; never empty."""
    first = (outcome.text or "").strip().partition("\n")[0].strip()
    return (outcome.get("message") or "").strip() or first or outcome.get("type") or NO_MESSAGE


def junit_cases(stream: Source, *, name: str) -> Iterator[tuple[Element, str]]:
    """Each test case of a JUnit file with the file of its suite; what was read is let go.

    Args:
        stream: the file's bytes, unpacked.
        name: of the file, for errors.

    Raises:
        BadFileError: it is no JUnit, is cut off, or declares entities or a document type.
    """
    cases = 0
    try:
        for found in _cases(stream, name):
            cases += 1
            yield found
    except DefusedXmlException as error:
        raise BadFileError(
            "declares entities or a document type, which is not allowed",
            where=name,
            remedy="check which tool wrote it",
        ) from error
    except (ParseError, LookupError, *UNREADABLE) as error:
        # An unknown or a broken encoding is a LookupError or a ValueError.
        raise BadFileError(
            f"is incomplete XML after {cases} test cases: {error}",
            where=name,
            remedy="its writer may have been cut off: write it again",
        ) from error


class _Bounded:
    """Feeds the parser in large pieces, and ends where an element takes too much or too many stand.

    The parser looks at a token that is not whole again with every piece, so small ones take it hours. Of
    elements a few bytes each make many times as much in memory.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._given = self._since = self._inside = self._outside = 0
        self.parser = DefusedXMLParser(target=TreeBuilder(), forbid_dtd=True)

    def read(self, _: int = -1) -> bytes:
        if self._given - self.parser.parser.CurrentByteIndex > MOST_TAG:
            raise ValueError(f"a tag has more than {MOST_TAG} bytes")
        piece = self._source.read(PIECE)
        self._given += len(piece)
        self._since += len(piece)
        if self._since > MOST_ELEMENT:
            raise ValueError(f"a test case or another element has more than {MOST_ELEMENT} bytes")
        return piece

    def begin(self, depth: int, *, inside: bool) -> None:
        """Count an element, which stands so deep, and whether it does in a test case."""
        self._inside += inside
        self._outside += not inside
        if depth > DEEPEST:
            raise ValueError(f"elements stand more than {DEEPEST} deep")
        if self._inside > MOST_INSIDE:
            raise ValueError(f"a test case has more than {MOST_INSIDE} elements")
        if self._outside > MOST_OUTSIDE:
            raise ValueError(f"more than {MOST_OUTSIDE} elements are no test cases")

    def forget(self) -> None:
        """A test case, or an element outside of any, is let go."""
        self._since = self._inside = 0


def _cases(stream: Source, name: str) -> Iterator[tuple[Element, str]]:
    open_elements: list[Element] = []
    case: Element | None = None
    bounded = _Bounded(stream)
    for event, element in iterparse(bounded, events=("start", "end"), parser=bounded.parser):
        if event == "start":
            element.tag = element.tag.rpartition("}")[2]  # whatever name space its writer puts it in
            if not open_elements:
                _check_root(element, name)
            open_elements.append(element)
            if case is None and element.tag == "testcase":
                case = element
            bounded.begin(len(open_elements), inside=case is not None)
            continue
        open_elements.pop()
        if element.tag == "testcase" and open_elements:
            yield element, _suite_file(open_elements)
        if open_elements and (case is None or element.tag == "testcase"):
            open_elements[-1].remove(element)
        if case is None or element is case:
            case = None
            bounded.forget()


def _check_root(element: Element, name: str) -> None:
    if element.tag not in {"testsuites", "testsuite"}:
        raise BadFileError(
            f"is not JUnit: it starts with <{element.tag[:80]}>",
            where=name,
            remedy="give the file that the test runner's JUnit option writes",
        )


def _suite_file(open_elements: list[Element]) -> str:
    files = (one.get("file") for one in reversed(open_elements) if one.tag == "testsuite")
    return next(filter(None, files), "")
