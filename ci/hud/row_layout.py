"""HUD's layout of rows, checked while a line is read; by msgspec, for a file may hold a million of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec

from ci.hud.callback import MAX_WHOLE

Kind = Literal["test_run", "test_run_summary", "failed_test_runs"]
KINDS: tuple[Kind, ...] = ("test_run", "test_run_summary", "failed_test_runs")

Whole = Annotated[int, msgspec.Meta(ge=0, le=MAX_WHOLE)]
Number = Annotated[int, msgspec.Meta(ge=1, le=MAX_WHOLE)]
Text = Annotated[str, msgspec.Meta(max_length=8192)]
LongText = Annotated[str, msgspec.Meta(max_length=1024 * 1024)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]


class Outcome(TypedDict):
    """A failure, an error, a skip or a rerun."""

    message: NotRequired[LongText | None]
    type: NotRequired[Text | None]
    text: NotRequired[LongText | None]


class Said(TypedDict):
    """What a test wrote."""

    text: NotRequired[LongText | None]


class Property(TypedDict):
    """A property of a test case."""

    name: Text
    value: NotRequired[Text | None]


class Properties(TypedDict):
    """A test case's properties: upstream takes one, others write several."""

    property: NotRequired[Property | list[Property] | None]


# One element stands as an object, several as an array, none as either or as null.
Outcomes = Outcome | list[Outcome] | None

TestRun = TypedDict(
    "TestRun",
    {
        "workflow_id": Number,
        "workflow_run_attempt": Number,
        "job_id": Number,
        "invoking_file": Text,
        "name": Text,
        "classname": NotRequired[Text | None],
        "file": NotRequired[Text | None],
        "line": NotRequired[Whole | None],
        "time": NotRequired[Seconds | None],
        "failure": NotRequired[Outcomes],
        "error": NotRequired[Outcomes],
        "skipped": NotRequired[Outcomes],
        "rerun": NotRequired[Outcomes],
        "system-out": NotRequired[Said | None],
        "system-err": NotRequired[Said | None],
        "properties": NotRequired[Properties | None],
    },
)


class TestRunSummary(TypedDict):
    """Counts of one class of a file in one job."""

    file: Text
    classname: Text
    job_id: Number
    workflow_id: Number
    workflow_run_attempt: Number
    invoking_file: Text
    tests: Whole
    errors: Whole
    failures: Whole
    skipped: Whole
    successes: Whole
    time: Seconds


_RUNS: msgspec.json.Decoder[Any] = msgspec.json.Decoder(TestRun)
DECODERS: dict[Kind, msgspec.json.Decoder[Any]] = {
    "test_run": _RUNS,
    "failed_test_runs": _RUNS,
    "test_run_summary": msgspec.json.Decoder(TestRunSummary),
}
