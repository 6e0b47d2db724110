"""A report that another CI handed over: checked as what it is, somebody else's text, before it is posted."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ci.core.errors import BadFileError, SettingsError, UsageError
from ci.hud.callback import NIGHTLY_EVENTS, UPSTREAM_REPOSITORY, RunDetails, TestResults, Workflow
from ci.hud.checks import check
from ci.hud.deliver import Delivery, Reporter, send_waiting, tell
from ci.hud.endpoint import EMBEDDED, NONE
from ci.hud.handing import MAX_INPUT_CHARACTERS
from ci.hud.outbox import Outbox
from ci.hud.payload import report_identity
from test_selection.files import write_json

VARIABLE = "SPYRE_CI_REPORT"
TOP = frozenset({"event_type", "delivery_id", "payload", "workflow"})
PAYLOAD = frozenset({"head_sha", "repository", "spyre_ci"})
SHOWN = 5


def forward(runs: Path, reporter: Reporter) -> Delivery:
    """Post the report that the environment holds.

    Args:
        runs: a folder is made in it, with the report's outbox.
        reporter: what reporting takes.

    Raises:
        SpyreCiError: there is none, it is not what it has to be, or the settings cannot be used.
    """
    report = reporter.settings.model.report
    if report.endpoint in {EMBEDDED, NONE}:
        raise UsageError(
            f"report.endpoint is `{report.endpoint}`, and a report is forwarded to a server elsewhere",
            where="report.endpoint",
            remedy="set SPYRE_CI__REPORT__ENDPOINT to the relay's URL",
        )
    here = reporter.environ.get("GITHUB_REPOSITORY", report.repository)
    if here != report.repository:
        raise SettingsError(
            f"is {report.repository!r}, but the job's token vouches for {here!r}",
            where="report.repository",
            remedy="set it to the repository that runs the workflow, in its exact letter case",
        )
    text = reporter.environ.get(VARIABLE, "")
    payload = parse(text, repository=report.repository)
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12]
    run_dir = runs / f"handed-{digest}"
    identity = report_identity(payload, repository=report.repository)
    Outbox(run_dir, reporter.effects.clock).enqueue(identity, payload)
    delivery = send_waiting(run_dir, reporter)
    write_json(run_dir / "hud.json", "hud", asdict(delivery))
    tell(delivery, reporter)
    return delivery


def parse(text: str, *, repository: str) -> dict[str, Any]:
    """The report in a text, which is data and never more.

    Args:
        text: JSON.
        repository: owner/name it will be reported for.

    Raises:
        UsageError: there is none.
        BadFileError: it is no self-reported callback of ours, with the reasons.
    """
    if not text.strip():
        raise UsageError(
            "no report was handed over",
            where=VARIABLE,
            remedy="let `spyre-ci hud dispatch` start the workflow",
        )
    if len(text) > MAX_INPUT_CHARACTERS:
        raise _bad(f"has {len(text)} characters, more than {MAX_INPUT_CHARACTERS}")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise _bad("is no JSON") from None
    if not isinstance(content, dict):
        raise _bad("is no JSON object")
    reasons = [*_foreign(content), *check(content, repository=repository)]
    if not reasons:
        reasons = [*_restricted(content)]
    if reasons:
        raise _bad("; ".join(reasons[:SHOWN]))
    return content


def _foreign(content: Mapping[str, Any]) -> Iterator[str]:
    """Keys we never write: what cannot be checked is not passed on with our name."""
    payload, workflow = _table(content, "payload"), _table(content, "workflow")
    tables = (
        ("", content, TOP),
        ("payload.", payload, PAYLOAD),
        ("payload.repository.", _table(payload, "repository"), {"full_name"}),
        ("payload.spyre_ci.", _table(payload, "spyre_ci"), RunDetails.model_fields.keys()),
        ("workflow.", workflow, Workflow.model_fields.keys()),
        ("workflow.test_results.", _table(workflow, "test_results"), TestResults.model_fields.keys()),
    )
    for prefix, table, known in tables:
        yield from (f"{prefix}{key[:80]!r} is no key of a report" for key in table if key not in known)


def _restricted(content: Mapping[str, Any]) -> Iterator[str]:
    if content["event_type"] not in NIGHTLY_EVENTS:
        yield f"event_type: only {' and '.join(sorted(NIGHTLY_EVENTS))} are forwarded"
    upstream = content["payload"]["repository"].get("full_name")
    if upstream != UPSTREAM_REPOSITORY:
        yield f"payload.repository.full_name: must be {UPSTREAM_REPOSITORY} (seen: {str(upstream)[:80]!r})"
    if not re.fullmatch(r"[A-Za-z0-9._+-]{1,255}", content["delivery_id"]):
        yield f"delivery_id: is no commit or version (seen: {content['delivery_id'][:80]!r})"


def _table(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = content.get(key)
    return value if isinstance(value, dict) else {}


def _bad(what: str) -> BadFileError:
    return BadFileError(what, where=VARIABLE, remedy="hand over what `spyre-ci hud dispatch` makes")
