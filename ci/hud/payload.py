"""The relay's callback: its typed model, the nightly callback of a run, and what is checked before sending.

The contract is that of PyTorch HUD's Cross-Repository CI Relay, `POST /github/callback` (RFC-0050, RFC-0054).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic import model_validator as _model_validator
from pydantic_core import ErrorDetails

NIGHTLY_EVENTS = frozenset({"nightly", "periodic"})
CONCLUSIONS = ("success", "failure", "cancelled", "timed_out")
MAX_BYTES = 2 * 1024 * 1024
# HUD keeps a row under its dynamoKey in DynamoDB, whose keys end at 2,048 bytes.
MAX_KEY_BYTES = 2048
# Numbers pass through JavaScript on their way, so no larger one arrives as it was sent.
MAX_WHOLE = 2**53 - 1
UPSTREAM_REPOSITORY = "pytorch/pytorch"
SCHEMA_VERSION = "1"

# HUD knows three counts, a run has nine verdicts. A test that did not give a pass where a pass was wanted is
# failed, whoever's fault it is, so that a hole never looks like success; passed + failed + skipped = total.
COUNT_OF_VERDICT: Mapping[str, Literal["passed", "failed", "skipped"]] = {
    "passed": "passed",
    "flaky": "passed",
    "xpassed": "passed",
    "failed": "failed",
    "hardware": "failed",
    "infrastructure": "failed",
    "not_run": "failed",
    "skipped": "skipped",
    "xfailed": "skipped",
}


def parse_time(text: str) -> datetime:
    """An ISO-8601 time as an aware one in UTC; a time without an offset is taken as UTC, as ClickHouse does.

    Raises:
        ValueError: it is no ISO-8601 time, or outside the years 1970 to 2261 that a DateTime64(9) can hold.
    """
    moment = datetime.fromisoformat(text)
    if not 1970 <= moment.year <= 2261:  # noqa: PLR2004  # the range is said in the docstring
        raise ValueError("is outside the years 1970 to 2261")
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC)


def _time_text(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.fromtimestamp(value, UTC).isoformat(timespec="milliseconds")
    return value


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


Count = Annotated[int, BeforeValidator(_whole), Field(ge=0, le=MAX_WHOLE)]
Identifier = Annotated[int, BeforeValidator(_whole_or_digits), Field(ge=1, le=MAX_WHOLE)]
Text = Annotated[str, Field(max_length=8192)]
Name = Annotated[str, Field(min_length=1, max_length=1024)]
Time = Annotated[str, Field(max_length=64), AfterValidator(_checked_time)]


class _Part(BaseModel):
    # What the dispatch sent is echoed unchanged, so keys we do not know stay.
    model_config = ConfigDict(frozen=True, extra="allow")


class TestResults(_Part):
    """Counts of one job, whole numbers from 0; `total` may be left out."""

    __test__ = False  # the name is the contract's; pytest shall not take it for a test class

    passed: Count = 0
    failed: Count = 0
    skipped: Count = 0
    total: Count | None = None

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
    check_run_id: Annotated[Name | int, BeforeValidator(lambda v: v if isinstance(v, str) else _whole(v))]
    run_id: Identifier
    run_attempt: Annotated[Identifier, Field(le=2**32 - 1)] = 1
    started_at: Time | None = None
    completed_at: Time | None = None
    test_results: TestResults | None = None
    artifact_url: Text | None = None
    url: Text | None = None
    schema_version: Text | None = None


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
    """What HUD's contract has no field for; it travels in the payload, which the relay hands on unread."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run: Text = ""
    lane: Text = ""
    provider: Text = ""
    device: Text = ""
    pytorch: Text = ""
    stage: Count | None = None
    percent: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] | None = None
    exit_code: Count | None = None
    verdicts: dict[Annotated[str, Field(max_length=64)], Count] = Field(default_factory=dict, max_length=64)


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

    @property
    def head_sha(self) -> str:
        """The PyTorch commit: the pull request's head, else the nightly's, else the delivery."""
        pull_request = self.payload.pull_request
        if pull_request is not None and pull_request.head.sha:
            return pull_request.head.sha
        return self.payload.head_sha or self.delivery_id

    def key(self, repository: str) -> str:
        """HUD's `dynamoKey` of the job when `repository` reports it."""
        workflow = self.workflow
        parts = (repository, self.delivery_id, workflow.name, workflow.job_name, workflow.check_run_id)
        return "/".join(str(part) for part in parts)

    def identity(self, repository: str) -> str:
        """One report's identity: the job's key, the run's attempt and the status told (law 6)."""
        workflow = self.workflow
        return f"{self.key(repository)}/{workflow.run_id}/{workflow.run_attempt}/{workflow.status}"


class RunIdentity(BaseModel):
    """Who a run is, as `summary.json` says under `identity`; times are ISO-8601 or epoch seconds."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run_id: Identifier
    run_attempt: Identifier = 1
    lane: str = ""
    job_name: str = ""
    workflow: str = ""
    url: str = ""
    provider: str = ""
    pytorch_version: str = ""
    pytorch_sha: str = ""
    device: str = ""
    stage: Count | None = None
    percent: float | None = None
    started_at: Annotated[Time, BeforeValidator(_time_text)]
    completed_at: Annotated[Time, BeforeValidator(_time_text)]


def count_verdicts(verdicts: Mapping[str, int]) -> dict[str, int]:
    """HUD's counts `{passed, failed, skipped, total}` of the nine verdicts (see COUNT_OF_VERDICT).

    Raises:
        ValueError: a verdict is none of the nine; a test would be lost in silence.
    """
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for verdict, number in verdicts.items():
        if verdict not in COUNT_OF_VERDICT:
            raise ValueError(f"{verdict!r} is not a verdict; known are: {', '.join(COUNT_OF_VERDICT)}")
        counts[COUNT_OF_VERDICT[verdict]] += number
    return {**counts, "total": sum(counts.values())}


def conclusion_of(exit_code: int) -> str:
    """HUD's conclusion of a run's exit code: 0 success, 130 cancelled, anything else failure."""
    return {0: "success", 130: "cancelled"}.get(exit_code, "failure")


def key_part(text: str, *, otherwise: str) -> str:
    """A name without what HUD and the relay split keys at: colons, control characters, outer blanks."""
    cleaned = re.sub(r"[:\x00-\x1f\x7f\ud800-\udfff]+", "-", text).strip(" -")
    return cleaned[:255] or otherwise


def nightly_completed(
    identity: RunIdentity,
    *,
    run: str,
    verdicts: Mapping[str, int],
    exit_code: int,
    check_run_id: str | None = None,
    artifact_url: str = "",
    conclusion: str | None = None,
) -> dict[str, Any]:
    """The one `completed` callback of a nightly run, whatever the number of its shards.

    Args:
        identity: who the run is.
        run: the readable run id, the name of its folder.
        verdicts: verdict to number of tests.
        exit_code: of the run; decides the conclusion.
        check_run_id: GitHub's `job.check_run_id`, which is not in the environment; None makes one of the run
            and the attempt, so that a re-run does not overwrite the row of the attempt before.
        artifact_url: where the report can be fetched.
        conclusion: overrides the exit code's, such as `timed_out`.
    """
    sha = key_part(identity.pytorch_sha or identity.pytorch_version, otherwise="").replace("/", "-")
    details = RunDetails.model_construct(
        run=run,
        lane=identity.lane,
        provider=identity.provider,
        device=identity.device,
        pytorch=identity.pytorch_version,
        stage=identity.stage,
        percent=identity.percent,
        exit_code=exit_code,
        verdicts=dict(verdicts),
    )
    return {
        "event_type": "nightly",
        "delivery_id": sha,
        "payload": {
            "head_sha": sha,
            "repository": {"full_name": UPSTREAM_REPOSITORY},
            "spyre_ci": details.model_dump(),
        },
        "workflow": {
            "status": "completed",
            "conclusion": conclusion or conclusion_of(exit_code),
            "run_id": identity.run_id,
            "run_attempt": identity.run_attempt,
            "name": key_part(identity.workflow, otherwise="spyre-ci"),
            "job_name": key_part(identity.job_name, otherwise=key_part(identity.lane, otherwise="spyre-ci")),
            "check_run_id": check_run_id or f"{identity.run_id}-{identity.run_attempt}",
            "started_at": identity.started_at,
            "completed_at": identity.completed_at,
            "test_results": count_verdicts(verdicts),
            "artifact_url": artifact_url,
            "url": identity.url,
            "schema_version": SCHEMA_VERSION,
        },
    }


def encode(payload: Mapping[str, Any]) -> bytes:
    """The JSON that is sent.

    Raises:
        ValueError: it holds NaN or an infinity, which JSON does not know.
    """
    return json.dumps(payload, separators=(",", ":"), allow_nan=False).encode()


def check(payload: Mapping[str, Any], *, repository: str) -> list[str]:
    """Why a callback must not be sent; empty when the contract holds.

    The relay answers 200 to much that HUD then loses (bad times, a colon in a job's name, a row without a
    start), so more is checked here than a server would refuse.
    """
    try:
        size = len(encode(payload))
        callback = Callback.model_validate(payload)
    except ValidationError as error:
        return [explain(detail) for detail in error.errors()]
    except ValueError as error:
        return [f"it is no JSON: {error}"]
    reasons = [*_check_keys(callback, repository), *_check_told(callback), *_check_times(callback.workflow)]
    if size > MAX_BYTES:
        reasons.append(f"it has {size} bytes, more than the {MAX_BYTES} the relay takes")
    return reasons


def explain(detail: ErrorDetails) -> str:
    """One mistake pydantic found, as `key: what (seen: value)`."""
    key = ".".join(str(part) for part in detail["loc"]) or "body"
    said = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "missing":
        return f"{key}: is missing"
    return f"{key}: {said} (seen: {json.dumps(detail['input'], default=str)[:80]})"


def _check_keys(callback: Callback, repository: str) -> list[str]:
    workflow, reasons = callback.workflow, []
    if callback.nightly and workflow.status != "completed":
        reasons.append(f"workflow.status: a {callback.event_type} reports `completed` only")
    if callback.nightly and callback.payload.head_sha != callback.delivery_id:
        reasons.append("payload.head_sha: must be the delivery_id, the PyTorch commit")
    for key, value in (("workflow.job_name", workflow.job_name), ("delivery_id", callback.delivery_id)):
        if ":" in value:
            reasons.append(f"{key}: holds a colon, at which the relay splits its keys (seen: {value!r})")
    if not re.fullmatch(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+", repository):
        reasons.append(f"repository: is not owner/name (seen: {repository!r})")
    if len(callback.key(repository).encode("utf-8", "replace")) > MAX_KEY_BYTES:
        reasons.append(f"the names together make a key of more than {MAX_KEY_BYTES} bytes")
    return reasons


def _check_told(callback: Callback) -> list[str]:
    workflow, reasons = callback.workflow, []
    if workflow.status == "completed":
        if workflow.conclusion not in CONCLUSIONS:
            known = ", ".join(CONCLUSIONS)
            reasons.append(f"workflow.conclusion: must be one of {known} (seen: {workflow.conclusion!r})")
        if workflow.test_results is None:
            reasons.append("workflow.test_results: is missing")
    for key, url in (("url", workflow.url), ("artifact_url", workflow.artifact_url)):
        if url and not is_web_url(url):
            reasons.append(f"workflow.{key}: is no http(s) URL (seen: {url[:80]!r})")
    return reasons


def _check_times(workflow: Workflow) -> list[str]:
    if workflow.started_at is None:
        return ["workflow.started_at: is missing; a row without it shows on almost no page"]
    texts = {"started_at": workflow.started_at}
    if workflow.status == "completed":
        if workflow.completed_at is None:
            return ["workflow.completed_at: is missing"]
        texts["completed_at"] = workflow.completed_at
    reasons = [
        f"workflow.{key}: has no offset from UTC (seen: {text!r})"
        for key, text in texts.items()
        if datetime.fromisoformat(text).tzinfo is None
    ]
    moments = [parse_time(text) for text in texts.values()]
    if moments != sorted(moments):
        reasons.append("workflow.completed_at: is before started_at")
    return reasons


def is_web_url(url: str) -> bool:
    """Whether it is an absolute http or https URL, the only kind a page links to."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.netloc)
