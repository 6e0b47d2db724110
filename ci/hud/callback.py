"""The typed model of the relay's callback, shared by the client and the server.

The contract is that of PyTorch HUD's Cross-Repository CI Relay, `POST /github/callback` (RFC-0050, RFC-0054).
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    ValidationInfo,
    field_validator,
)
from pydantic import model_validator as _model_validator
from pydantic_core import ErrorDetails

from ci.store.identity import MAX_WHOLE

NIGHTLY_EVENTS = frozenset({"nightly", "periodic"})
MAX_BYTES = 2 * 1024 * 1024
# A UInt32 column holds it.
MAX_ATTEMPT = 2**32 - 1
UPSTREAM_REPOSITORY = "pytorch/pytorch"
_OUTSIDE = "is outside the years 1970 to 2261"


def parse_time(text: str) -> datetime:
    """An ISO-8601 time as an aware one in UTC; a time without an offset is taken as UTC, as ClickHouse does.

    Raises:
        ValueError: it is no ISO-8601 time, or in UTC outside the years 1970 to 2261 that a DateTime64(9) can
            hold.
    """
    moment = datetime.fromisoformat(text)
    try:
        utc = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(_OUTSIDE) from error
    # In UTC, as it is stored and read again: an offset can lead out of the range.
    if not 1970 <= utc.year <= 2261:  # noqa: PLR2004  # the range is said in the docstring
        raise ValueError(_OUTSIDE)
    return utc


def stored_time(text: str) -> datetime | None:
    """A time of a stored row; None where it has none, or one that no callback can bring."""
    try:
        return parse_time(text)
    except ValueError:
        return None


def stored_epoch(text: str) -> float:
    """The same in seconds since the epoch; 0 where there is none."""
    time = stored_time(text)
    return 0.0 if time is None else time.timestamp()


def _checked_time(text: str) -> str:
    parse_time(text)
    return text


def _whole(value: Any) -> Any:
    # A bool is an int to Python, and 5.0 is 5 to JavaScript; a fraction would be lost inside ClickHouse.
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise ValueError("must be a whole number")


def _whole_or_digits(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value.strip()):
        return int(value)
    return _whole(value)


# The bounds stand before the validator, else they are missing in the JSON schema.
Count = Annotated[int, Field(ge=0, le=MAX_WHOLE), BeforeValidator(_whole)]
# Tests of a job; many of them still add up to what a database's whole numbers hold.
TestCount = Annotated[int, Field(ge=0, le=1_000_000_000), BeforeValidator(_whole)]
Identifier = Annotated[int, Field(ge=1, le=MAX_WHOLE), BeforeValidator(_whole_or_digits)]
# Strict, or text that is too long a name is taken as a number, and its zeros are lost.
CheckRun = Annotated[int, Field(strict=True, ge=0, le=MAX_WHOLE)]
Attempt = Annotated[int, Field(ge=1, le=MAX_ATTEMPT), BeforeValidator(_whole_or_digits)]
Seconds = Annotated[float, Field(strict=True, ge=0, le=1e12, allow_inf_nan=False)]
Text = Annotated[str, Field(max_length=8192)]
Name = Annotated[str, Field(min_length=1, max_length=1024)]
Time = Annotated[str, Field(max_length=64), AfterValidator(_checked_time)]


class _Part(BaseModel):
    # What the dispatch sent is echoed unchanged, so keys we do not know stay.
    model_config = ConfigDict(frozen=True, extra="allow")


class TestResults(_Part):
    """Counts of one job, whole numbers from 0; `total` may be left out."""

    __test__ = False  # the name is the contract's; pytest shall not take it for a test class

    passed: TestCount = 0
    failed: TestCount = 0
    skipped: TestCount = 0
    total: TestCount | None = None

    @_model_validator(mode="after")
    def _adds_up(self) -> TestResults:
        parts = self.passed + self.failed + self.skipped
        if self.total is not None and self.total != parts:
            raise ValueError(f"total is {self.total}, but passed + failed + skipped is {parts}")
        return self


class Workflow(_Part):
    """What the downstream job says of itself."""

    status: Literal["in_progress", "completed"]
    conclusion: Text | None = None
    name: Name
    job_name: Name
    check_run_id: Annotated[
        Name | CheckRun, BeforeValidator(lambda v: v if isinstance(v, str) else _whole(v))
    ]
    run_id: Identifier
    run_attempt: Attempt = 1
    started_at: Time | None = None
    completed_at: Time | None = None
    test_results: TestResults | None = None
    artifact_url: Text | None = None
    url: Text | None = None
    schema_version: Text | None = None

    @field_validator("completed_at")
    @classmethod
    def _ends_after_its_start(cls, value: str | None, info: ValidationInfo) -> str | None:
        # A start that is none itself is a mistake of its own, and not there.
        start = info.data.get("started_at")
        if value and start and parse_time(value) < parse_time(start):
            raise ValueError(f"is before started_at, {start}")
        return value


class Head(_Part):
    """The head of a pull request."""

    sha: Text = ""


class PullRequest(_Part):
    """The pull request a job was dispatched for."""

    number: Count
    head: Head = Head()


class Repository(_Part):
    """The upstream repository."""

    full_name: Text = UPSTREAM_REPOSITORY


class RunDetails(BaseModel):
    """What HUD's contract has no field for; it travels in the payload, which the relay hands on unread.

    Counts are of tests: those in scope, of the selection, that ran, and that passed; seconds are those the
    same tests take one after the other, but `first_failure_seconds`: from the start to the first failure.
    `change_failed` tests failed that never had; the change names `change_caught` of them.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    run: Text = ""
    lane: Text = ""
    provider: Text = ""
    device: Text = ""
    emulated: StrictBool = False
    pytorch: Text = ""
    stage: Count | None = None
    percent: Annotated[float, Field(strict=True, ge=0, le=100, allow_inf_nan=False)] | None = None
    exit_code: Count | None = None
    verdicts: dict[Annotated[str, Field(max_length=64)], TestCount] = Field(
        default_factory=dict, max_length=64
    )
    quarantined: TestCount = 0
    seed: Count | None = None
    cards: Count | None = None
    in_scope: Count | None = None
    selected: Count | None = None
    ran: Count | None = None
    passed: Count | None = None
    in_scope_seconds: Seconds | None = None
    selected_seconds: Seconds | None = None
    ran_seconds: Seconds | None = None
    passed_seconds: Seconds | None = None
    first_failure_seconds: Seconds | None = None
    change_failed: TestCount | None = None
    change_caught: TestCount | None = None

    # What stays in the job's `environment` alone; every other field is a column of its own in the store.
    NO_COLUMNS: ClassVar[frozenset[str]] = frozenset({"emulated", "verdicts", "quarantined", "seed"})


class ClientPayload(_Part):
    """The dispatch's payload; of a nightly, made by the reporter."""

    head_sha: Text | None = None
    repository: Repository = Repository()
    pull_request: PullRequest | None = None
    spyre_ci: RunDetails | None = None


class Callback(_Part):
    """The body of a callback."""

    event_type: Annotated[str, Field(max_length=64)] = ""
    delivery_id: Name
    payload: ClientPayload = ClientPayload()
    workflow: Workflow

    @property
    def nightly(self) -> bool:
        """Whether it is self-reported (`nightly`, `periodic`): one completed callback, no states."""
        return self.event_type in NIGHTLY_EVENTS

    def key(self, repository: str) -> str:
        """HUD's `dynamoKey` of the job when `repository` reports it."""
        workflow = self.workflow
        parts = (repository, self.delivery_id, workflow.name, workflow.job_name, workflow.check_run_id)
        return "/".join(str(part) for part in parts)


def explain(detail: ErrorDetails) -> str:
    """One mistake pydantic found, as `key: what (seen: value)`."""
    key = ".".join(str(part) for part in detail["loc"]) or "body"
    said = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "missing":
        return f"{key}: is missing"
    return f"{key}: {said} (seen: {json.dumps(detail['input'], default=str)[:80]})"


def is_web_url(url: str) -> bool:
    """Whether it is an absolute http or https URL, the only kind a page links to."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.netloc)
