"""Reading JUnit of any runner as HUD's rows: pytest, pytest-xdist, unittest-xml-reporting, and our own.

The file is another's word: it is read as a stream, and entities are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element, ParseError  # the types; the parser is defusedxml's

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import iterparse

from ci.errors import BadFileError
from ci.hud.row_files import Source
from ci.hud.rows import Job, Row, case_row


def junit_rows(stream: Source, job: Job, *, name: str) -> Iterator[Row]:
    """The `test_run` rows of a JUnit file, in its order.

    Args:
        stream: the file's bytes, unpacked.
        job: whose rows they are.
        name: of the file, for errors.

    Raises:
        BadFileError: it is no JUnit, is cut off, or declares entities or a document type.
    """
    cases = 0
    try:
        for case, suite_file in _cases(stream, name):
            cases += 1
            yield case_row(case, job, suite_file=suite_file)
    except DefusedXmlException as error:
        raise BadFileError(
            "declares entities or a document type, which no test runner writes",
            where=name,
            remedy="look at who wrote it",
        ) from error
    except (ParseError, LookupError, ValueError) as error:
        # An unknown or a broken encoding is a LookupError or a ValueError.
        raise BadFileError(
            f"is no whole XML after {cases} test cases: {error}",
            where=name,
            remedy="its writer may have been cut off: write it again",
        ) from error


def _cases(stream: Source, name: str) -> Iterator[tuple[Element, str]]:
    """Each test case with the file of its suite; what was read is let go, however large the file is."""
    open_elements: list[Element] = []
    for event, element in iterparse(stream, events=("start", "end"), forbid_dtd=True):
        if event == "start":
            if not open_elements and element.tag not in {"testsuites", "testsuite"}:
                raise BadFileError(
                    f"is no JUnit: it begins with <{element.tag[:80]}>",
                    where=name,
                    remedy="give the file that the test runner's JUnit option writes",
                )
            open_elements.append(element)
            continue
        open_elements.pop()
        if element.tag in {"testcase", "testsuite"} and open_elements:
            if element.tag == "testcase":
                yield element, _suite_file(open_elements)
            open_elements[-1].remove(element)


def _suite_file(open_elements: list[Element]) -> str:
    files = (one.get("file") for one in reversed(open_elements) if one.tag == "testsuite")
    return next(filter(None, files), "")
