"""A row of a test: HUD's layout of it, made of a JUnit test case, and the summaries made of rows. Pure.

The keys are those of PyTorch's own uploads: a test case's attributes, its child elements as objects (as an
array where one stands twice), the whole numbers of its job, and the file it was run by. msgspec checks them
while a line is read, for a file may hold a million.

What HUD's layout loses is closed here: an outcome without a message counts as passed there, a second property
rejects the whole file, and a name that looks like a number becomes one.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Protocol
from xml.etree.ElementTree import Element  # the type; files are read by defusedxml

import msgspec
from msgspec import UNSET, UnsetType

from ci.record.junit_reader import NO_MESSAGE, Source, junit_cases, left_out, message_of
from ci.store.identity import MAX_WHOLE

ID_PROPERTY = "id"
MESSAGE_CHARACTERS = 2000
TEXT_CHARACTERS = 64 * 1024
DIGEST_CHARACTERS = 16
COUNTS = ("tests", "errors", "failures", "skipped", "successes", "time")

Kind = Literal["test_run", "test_run_summary", "failed_test_runs"]
KINDS: tuple[Kind, ...] = ("test_run", "test_run_summary", "failed_test_runs")

NAME_CHARACTERS = 8192
Whole = Annotated[int, msgspec.Meta(ge=0, le=MAX_WHOLE)]
Number = Annotated[int, msgspec.Meta(ge=1, le=MAX_WHOLE)]
Text = Annotated[str, msgspec.Meta(max_length=NAME_CHARACTERS)]
LongText = Annotated[str, msgspec.Meta(max_length=1024 * 1024)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


class Outcome(msgspec.Struct, gc=False):
    """A failure, an error, a skip or a rerun."""

    message: LongText = ""
    type: Text | UnsetType = UNSET
    text: LongText | UnsetType = UNSET


class Said(msgspec.Struct, gc=False):
    """What a test wrote."""

    text: LongText = ""


class Property(msgspec.Struct, gc=False):
    """A property of a test case."""

    name: Text
    value: Text = ""


class Properties(msgspec.Struct, gc=False):
    """A test case's properties: upstream takes one, others write several."""

    property: Property | list[Property] | UnsetType = UNSET


# One element stands as an object, several as an array; none is left out.
Outcomes = Outcome | list[Outcome] | UnsetType


class TestRun(
    msgspec.Struct,
    kw_only=True,
    gc=False,  # no row refers to itself
    rename={"system_out": "system-out", "system_err": "system-err"},
):
    """A row of `test_run` and `failed_test_runs`: a test case.

    Attributes:
        invoking_file: HUD's name of the test file, dotted.
        time: seconds.
        rerun: of a test that passed or failed after it was tried again.
    """

    __test__ = False  # pytest would take it for a test

    workflow_id: Number
    workflow_run_attempt: Number
    job_id: Number
    invoking_file: Text
    name: Text
    classname: Text = ""
    file: Text = ""
    time: Seconds = 0.0
    line: Whole | UnsetType = UNSET
    assertions: Whole | UnsetType = UNSET
    timestamp: Text | UnsetType = UNSET
    failure: Outcomes = UNSET
    error: Outcomes = UNSET
    skipped: Outcomes = UNSET
    rerun: Outcomes = UNSET
    system_out: Said | UnsetType = UNSET
    system_err: Said | UnsetType = UNSET
    properties: Properties | UnsetType = UNSET


class Counted(Protocol):
    """A row, as it came or as it is stored."""

    invoking_file: str
    file: str
    classname: str
    time: float
    failure: Any
    error: Any
    skipped: Any


def without_nulls(value: Any) -> Any:
    """JSON as it is without the keys whose value is null: some writers give one where there is nothing."""
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Whose rows they are; all three are whole numbers from 1.

    Attributes:
        workflow_id: the CI's run.
        workflow_run_attempt: of the run.
        job_id: see `ci.store.identity.job_number`.
    """

    workflow_id: int
    workflow_run_attempt: int
    job_id: int

    NAMES: ClassVar = ("workflow_id", "workflow_run_attempt", "job_id")

    def numbers(self) -> tuple[int, int, int]:
        """The three, in their order."""
        return self.workflow_id, self.workflow_run_attempt, self.job_id

    def keys(self) -> dict[str, int]:
        """As the rows have them."""
        return dict(zip(self.NAMES, self.numbers(), strict=True))


def junit_rows(stream: Source, job: Job, *, name: str) -> Iterator[TestRun]:
    """The `test_run` rows of a JUnit file, in its order.

    Args:
        stream: the file's bytes, unpacked.
        job: whose rows they are.
        name: of the file, for errors.

    Raises:
        BadFileError: of `junit_cases`.
    """
    for case, suite_file in junit_cases(stream, name=name):
        yield case_row(case, job, suite_file=suite_file)


def case_row(case: Element, job: Job, *, suite_file: str = "") -> TestRun:
    """The `test_run` row of a JUnit test case.

    An attribute that HUD's layout does not know is nobody's: a hostile one could stand for a child element. A
    name that looks like a number stays text.

    Args:
        case: the element.
        job: whose it is.
        suite_file: the file of the suite it stands in, where the case names none.
    """
    said = case.attrib
    classname = kept_name(said.get("classname", ""))
    file = kept_name(said.get("file", "")) or kept_name(suite_file or file_of_class(classname))
    row = TestRun(
        workflow_id=job.workflow_id,
        workflow_run_attempt=job.workflow_run_attempt,
        job_id=job.job_id,
        invoking_file=invoking_file(file),
        name=kept_name(said.get("name", "")),
        classname=classname,
        file=file,
        time=seconds(said.get("time", "")),
        line=_whole(said.get("line", "")),
        assertions=_whole(said.get("assertions", "")),
        timestamp=kept_name(said["timestamp"]) if "timestamp" in said else UNSET,
        failure=_outcomes(case, "failure"),
        error=_outcomes(case, "error"),
        skipped=_skipped(case),
        rerun=_outcomes(case, "rerun"),
        system_out=_said(case, "system-out"),
        system_err=_said(case, "system-err"),
        properties=_properties(case),
    )
    mend(row)
    return row


def kept_name(text: str) -> str:
    """A name as a row can hold it: of a longer one the beginning and a digest, so that two stay two."""
    if len(text) <= NAME_CHARACTERS:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARACTERS]
    return f"{text[: NAME_CHARACTERS - DIGEST_CHARACTERS - 1]}…{digest}"


def file_of_class(classname: str) -> str:
    """The test file a dotted class name begins with: its parts before the first that begins like a class.

    pytest's default family and unittest-xml-reporting name no file: `test.sub.test_x.TestA` is of
    `test/sub/test_x.py`.
    """
    parts: list[str] = []
    for part in classname.split("."):
        if part[:1].isupper():
            break
        parts.append(part)
    return "/".join(parts) + ".py" if parts and all(parts) else ""


def invoking_file(file: str) -> str:
    """HUD's name of a test file: dotted, without the suffix."""
    return file.removesuffix(".py").strip("/").replace("/", ".")


def no_summaries() -> dict[tuple[str, str, str], list[float]]:
    """No counts yet: COUNTS by invoking file, file and class, in the order in which these first stand."""
    return defaultdict(lambda: [0, 0, 0, 0, 0, 0.0])


def summarize(summaries: dict[tuple[str, str, str], list[float]], row: Counted) -> None:
    """Count a row; its outcomes are false where there are none."""
    counts = summaries[row.invoking_file, row.file, row.classname]
    counts[0] += 1
    counts[2 if row.failure else 1 if row.error else 3 if row.skipped else 4] += 1
    counts[5] += row.time


def is_failed(row: TestRun) -> bool:
    """Whether it has a failure, an error or a rerun: what `failed_test_runs` holds."""
    return not (row.failure is UNSET and row.error is UNSET and row.rerun is UNSET)


def seconds(text: str) -> float:
    """Seconds as JUnit writers give them, some with a comma before thousands or decimals; 0 if it is none."""
    plain = text.strip()
    if re.fullmatch(r"[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]*)?", plain):
        plain = plain.replace(",", "")
    elif re.fullmatch(r"[0-9]+,[0-9]+", plain):
        plain = plain.replace(",", ".")
    try:
        value = float(plain)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) and value >= 0 else 0.0


def _whole(text: str) -> int | UnsetType:
    return int(text) if re.fullmatch(r"[0-9]{1,15}", text.strip(), re.ASCII) else UNSET


def _outcomes(case: Element, tag: str) -> Outcomes:
    return [_outcome(one) for one in case.findall(tag)] or UNSET


def _skipped(case: Element) -> Outcomes:
    """Why it was skipped; some runners, such as GoogleTest, say only by an attribute that it never ran."""
    found = _outcomes(case, "skipped")
    told = left_out(case)
    if found is UNSET and told and not any(case.find(tag) is not None for tag in ("failure", "error")):
        return Outcome(message=", ".join(sorted(told)))
    return found


def _outcome(element: Element) -> Outcome:
    """Never without a message: the first line of the text, else its type, else that there is none."""
    kind = element.get("type") or ""
    return Outcome(
        message=message_of(element),
        type=kind[:MESSAGE_CHARACTERS] or UNSET,
        text=(element.text or "").strip() or UNSET,
    )


def _said(case: Element, tag: str) -> Said | UnsetType:
    said = "\n".join(one.text or "" for one in case.findall(tag)).strip()
    return Said(text=said) if said else UNSET


def _properties(case: Element) -> Properties | UnsetType:
    found = [
        Property(name=kept_name(name), value=kept_name(one.get("value") or (one.text or "").strip()))
        for one in case.iterfind("properties/property")
        if (name := one.get("name"))
    ]
    return Properties(property=found) if found else UNSET


def mend(row: TestRun) -> None:
    """Have an outcome always have a message, texts end, and one property be kept: our id, else the first."""
    for key in ("failure", "error", "skipped", "rerun"):
        if (told := getattr(row, key)) is not UNSET:
            setattr(row, key, _mended(told if isinstance(told, list) else [told]))
    if row.system_out is not UNSET:
        row.system_out = _ending(row.system_out)
    if row.system_err is not UNSET:
        row.system_err = _ending(row.system_err)
    if row.properties is not UNSET and not isinstance(row.properties.property, Property):
        found = row.properties.property or []
        kept = next((one for one in found if one.name == ID_PROPERTY), found[0] if found else None)
        row.properties = Properties(property=kept) if kept is not None else UNSET


def _mended(found: list[Outcome]) -> Outcomes:
    for one in found:
        one.message = one.message[:MESSAGE_CHARACTERS] or NO_MESSAGE
        if one.text is not UNSET:
            one.text = one.text[-TEXT_CHARACTERS:]
    return found if len(found) > 1 else found[0] if found else UNSET


def _ending(told: Said) -> Said | UnsetType:
    told.text = told.text[-TEXT_CHARACTERS:]
    return told if told.text else UNSET
