"""HUD's layout of rows, checked while a line is read; by msgspec, for a file may hold a million of them.

The keys are those of PyTorch's own uploads: a test case's attributes, its child elements as objects (as an
array where one stands twice), the whole numbers of its job, and the file it was run by.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ci.store.identity import MAX_WHOLE

Kind = Literal["test_run", "test_run_summary", "failed_test_runs"]
KINDS: tuple[Kind, ...] = ("test_run", "test_run_summary", "failed_test_runs")

NAME_CHARACTERS = 8192
Whole = Annotated[int, msgspec.Meta(ge=0, le=MAX_WHOLE)]
# So that sums over many jobs stay below what a database's whole numbers hold.
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
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


# One element stands as an object, several as an array; none is not there.
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


class TestRunSummary(msgspec.Struct, kw_only=True, gc=False):
    """Counts of one class of a file in one job; `time` in seconds."""

    __test__ = False

    file: Text
    classname: Text
    job_id: Number
    workflow_id: Number
    workflow_run_attempt: Number
    invoking_file: Text
    tests: Count
    errors: Count
    failures: Count
    skipped: Count
    successes: Count
    time: Seconds


def without_nulls(value: Any) -> Any:
    """JSON as it is without the keys whose value is null: some writers give one where there is nothing."""
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value
