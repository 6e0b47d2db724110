"""The rows HUD keeps of tests: `test_run`, `test_run_summary` and `failed_test_runs`. Pure.

The keys are those of PyTorch's own uploads: a test case's attributes, its child elements as objects (as an
array where one stands twice), the whole numbers of its job, and the file it was run by. What that layout
loses is closed here: an outcome without a message counts as passed there, a second property rejects the whole
file, and a name that looks like a number becomes one.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from xml.etree.ElementTree import Element  # the type; files are read by defusedxml

Row = dict[str, Any]

TAGS = ("failure", "error", "skipped", "rerun")
TEXT_TAGS = ("system-out", "system-err")
# One identity function: what a summary is counted by.
SUMMARY_KEYS = ("file", "classname", "job_id", "workflow_id", "workflow_run_attempt", "invoking_file")
ID_PROPERTY = "id"
NO_MESSAGE = "no message"
MESSAGE_CHARACTERS = 2000
TEXT_CHARACTERS = 64 * 1024
# The longest name a file of rows may have; ci.hud.row_layout checks it.
NAME_CHARACTERS = 8192
DIGEST_CHARACTERS = 16
# Others are nobody's: a hostile one could stand for a child element.
_ATTRIBUTES = frozenset({"name", "classname", "file", "line", "time", "assertions", "timestamp"})
# Attributes that are numbers; any other, a name that looks like one among them, stays text.
_WHOLE = frozenset({"line", "assertions"})
_COUNTS = {"failure": "failures", "error": "errors", "skipped": "skipped"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Whose rows they are; all three are whole numbers from 1.

    Attributes:
        workflow_id: the CI's run.
        workflow_run_attempt: of the run.
        job_id: see `ci.hud.identity.job_number`.
    """

    workflow_id: int
    workflow_run_attempt: int
    job_id: int

    NAMES: ClassVar = ("workflow_id", "workflow_run_attempt", "job_id")

    def numbers(self) -> tuple[int, int, int]:
        """The three, in their order."""
        return self.workflow_id, self.workflow_run_attempt, self.job_id

    def keys(self) -> Row:
        """As the rows have them."""
        return dict(zip(self.NAMES, self.numbers(), strict=True))


def case_row(case: Element, job: Job, *, suite_file: str = "") -> Row:
    """The `test_run` row of a JUnit test case.

    Args:
        case: the element.
        job: whose it is.
        suite_file: the file of the suite it stands in, where the case names none.
    """
    row: Row = {"name": "", "classname": ""}
    for name in _ATTRIBUTES & case.attrib.keys():
        if (value := _value(name, case.attrib[name])) is not None:
            row[name] = value
    row["file"] = row.get("file") or kept_name(suite_file or file_of_class(row["classname"]))
    row.setdefault("time", 0.0)
    for tag in TAGS:
        if found := [_outcome(one) for one in case.findall(tag)]:
            row[tag] = found if len(found) > 1 else found[0]
    for tag in TEXT_TAGS:
        if said := "\n".join(one.text or "" for one in case.findall(tag)).strip():
            row[tag] = {"text": said[-TEXT_CHARACTERS:]}
    if (kept := _kept_property(case)) is not None:
        row["properties"] = {"property": kept}
    return row | job.keys() | {"invoking_file": invoking_file(row["file"])}


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


class SummaryRows:
    """Counts the `test_run_summary` of rows that pass by: one a file, class and job, as they first stand."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], Row] = {}

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a row of `test_run`."""
        key = tuple(row[name] for name in SUMMARY_KEYS)
        one = self._found.get(key)
        if one is None:
            counts = {"tests": 0, "errors": 0, "failures": 0, "skipped": 0, "successes": 0, "time": 0.0}
            one = self._found[key] = dict(zip(SUMMARY_KEYS, key, strict=True)) | counts
        one["tests"] += 1
        one[counted_as(row)] += 1
        one["time"] += row["time"]

    def rows(self) -> list[Row]:
        """What was counted."""
        return [one | {"time": round(one["time"], 6)} for one in self._found.values()]


def is_failed(row: Mapping[str, Any]) -> bool:
    """Whether it has a failure, an error or a rerun: what `failed_test_runs` holds."""
    return "failure" in row or "error" in row or "rerun" in row


def seconds(text: str) -> float:
    """Seconds as JUnit writers give them, thousands with a comma among them; 0 where it is no time."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return 0.0
    return value if math.isfinite(value) and value >= 0 else 0.0


def counted_as(row: Mapping[str, Any]) -> str:
    """The count of a summary that a row belongs to: a failure comes first, then an error, then a skip."""
    return next((count for tag, count in _COUNTS.items() if tag in row), "successes")


def _value(name: str, text: str) -> str | int | float | None:
    if name in _WHOLE:
        return int(text) if re.fullmatch(r"[0-9]{1,15}", text.strip(), re.ASCII) else None
    return seconds(text) if name == "time" else kept_name(text)


def _outcome(element: Element) -> Row:
    """Never without a message: the first line of the text, else its type, else that there is none."""
    text = (element.text or "").strip()
    kind = element.get("type") or ""
    message = (element.get("message") or "").strip() or text.partition("\n")[0].strip() or kind or NO_MESSAGE
    made: Row = {"message": message[:MESSAGE_CHARACTERS]}
    if kind:
        made["type"] = kind[:MESSAGE_CHARACTERS]
    if text:
        made["text"] = text[-TEXT_CHARACTERS:]
    return made


def _kept_property(case: Element) -> Row | None:
    """The one property that is kept: our id, else the first."""
    found = [one for one in case.iterfind("properties/property") if one.get("name")]
    if not found:
        return None
    kept = next((one for one in found if one.get("name") == ID_PROPERTY), found[0])
    value = kept.get("value") or (kept.text or "").strip()
    return {"name": kept_name(kept.get("name") or ""), "value": kept_name(value)}
