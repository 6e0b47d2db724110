"""Hand a nightly's report to a GitHub repository that may report, where this CI may not (Jenkins).

The relay knows GitHub's and Buildkite's tokens only. So a workflow of an allow-listed repository is started
with the report as its one input (`POST /repos/{owner}/{repo}/actions/workflows/{file}/dispatches`), and posts
it with a token of its own. GitHub takes at most 65,535 characters of inputs. There the report is checked as
what it is, somebody else's text, before it is posted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from ci.config.recipient import check_address
from ci.core.errors import BadFileError, SettingsError, UsageError
from ci.hud import oidc
from ci.hud.answers import REMEDIES as CALLBACKS
from ci.hud.answers import Answer, Outcome, Reply
from ci.hud.callback import NIGHTLY_EVENTS, UPSTREAM_REPOSITORY, RunDetails, TestResults, Workflow
from ci.hud.checks import check
from ci.hud.client import Target
from ci.hud.delivery import flush
from ci.hud.dispatched import kept
from ci.hud.endpoint import EMBEDDED, NONE, check_private
from ci.hud.outbox import Outbox
from ci.hud.payload import SUMMARY, Ways, encode, ended_of, report_identity
from ci.hud.send import Delivery, Reporter, delivery_of, no_commit, send_waiting
from ci.hud.token import find_token
from test_selection.files import read_json

TOKEN_VARIABLE = "SPYRE_CI_GITHUB_TOKEN"  # noqa: S105  # the variable's name, not a secret
INPUT = "report"
MAX_INPUT_CHARACTERS = 65_535
BOX = "outbox-dispatch"
REMEDIES = {
    **CALLBACKS,
    Outcome.UNAUTHORIZED: f"give {TOKEN_VARIABLE} the right to start workflows there (actions: write)",
    Outcome.REFUSED: "check report.dispatch: the repository, its workflow file and the ref",
    Outcome.RETRY: "wait until GitHub answers again",
    Outcome.INVALID: "fix what the message names, or report to a server of your own (report.endpoint)",
}
HEADERS = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
VARIABLE = "SPYRE_CI_REPORT"
SHOWN = 5
# What we write of each table of a report; only then can it be checked.
KEYS: Mapping[str, frozenset[str]] = {
    "": frozenset({"event_type", "delivery_id", "payload", "workflow"}),
    "payload.": frozenset({"head_sha", "repository", "spyre_ci"}),
    "payload.repository.": frozenset({"full_name"}),
    "payload.spyre_ci.": frozenset(RunDetails.model_fields),
    "workflow.": frozenset(Workflow.model_fields),
    "workflow.test_results.": frozenset(TestResults.model_fields),
}


def is_handed_over(run_dir: Path, reporter: Reporter) -> bool:
    """Whether a run is reported by the repository of `report.dispatch`: a nightly of a CI without OIDC."""
    wanted = reporter.report.dispatch.repository is not None
    here = not oidc.offered(reporter.environ) and (run_dir / SUMMARY).is_file()
    return wanted and here and kept(run_dir) is None


def hand_over(run_dir: Path, reporter: Reporter) -> Delivery:
    """Ask the repository of `report.dispatch` to report a run.

    Raises:
        SpyreCiError: the settings or the token cannot be used, or there is nothing such to report.
    """
    target, report = target_of(reporter), reporter.report
    path = run_dir / SUMMARY
    ways = Ways(environ=reporter.environ, job_name=report.job_name, cancelled=reporter.told_cancelled)
    payload = ended_of(read_json(path, "summary"), ways, path=path)
    box = Outbox(run_dir, reporter.effects.clock, name=BOX)
    box.enqueue(report_identity(payload, repository=target.repository), payload)
    sent = flush(box, target, reporter.effects, budget_s=report.budget_s)
    return reporter.finish(run_dir, delivery_of(sent, endpoint=target.shown, done="dispatched"))


def target_of(reporter: Reporter) -> Target:
    """Where `report.dispatch` hands reports to.

    Raises:
        SettingsError: no repository is named, the address cannot be trusted with the token, or there is none.
    """
    settings, wanted = reporter.settings, reporter.report.dispatch
    if wanted.repository is None:
        raise SettingsError(
            "the repository that reports for this CI is not set",
            where="report.dispatch.repository",
            remedy="set it to an allow-listed owner/name that has the workflow",
        )
    if wanted.api != type(wanted)().api:
        # The token can start workflows: it goes to nobody whom a settings file of a pull request names.
        check_address(settings, "report.dispatch.api", shown=wanted.api)
    check_private(wanted.api, "report.dispatch.api")
    token = partial(
        find_token,
        reporter.environ,
        None if wanted.token_file is None else settings.resolve(wanted.token_file),
        variable=TOKEN_VARIABLE,
        where="report.dispatch.token_file",
        remedy=f"set {TOKEN_VARIABLE}, or name a file with a token that may start workflows",
    )
    token()  # said at once and clearly
    workflows = f"{wanted.api.rstrip('/')}/repos/{wanted.repository}/actions/workflows"
    return Target(
        url=f"{workflows}/{wanted.workflow}/dispatches",
        repository=wanted.repository,
        shown=f"{wanted.repository} on GitHub ({wanted.workflow})",
        token=token,
        timeout_s=reporter.report.timeout_s,
        send=partial(_dispatch, ref=wanted.ref),
        remedies=REMEDIES,
    )


def _dispatch(payload: Mapping[str, Any], target: Target, *, doubtful: bool, ref: str) -> Answer:
    """Start the workflow of a branch or tag; see `Send`."""
    del doubtful  # a nightly's report may arrive twice
    text = encode(payload).decode()
    if len(text) > MAX_INPUT_CHARACTERS:
        detail = f"the report has {len(text)} characters, and GitHub accepts at most {MAX_INPUT_CHARACTERS}"
        return Answer(outcome=Outcome.INVALID, detail=detail)
    body = json.dumps({"ref": ref, "inputs": {INPUT: text}}).encode()
    return classify(target.ask(body, headers=HEADERS))


def classify(reply: Reply) -> Answer:
    """Read GitHub's answer to a dispatch (docs.github.com, "Create a workflow dispatch event")."""
    status, said = reply.status, f"GitHub: {reply.said}"
    if status in {200, 201, 204}:
        return reply.means(Outcome.DELIVERED, said)
    limited = "retry-after" in reply.headers or reply.headers.get("x-ratelimit-remaining") == "0"
    if status == HTTPStatus.FORBIDDEN and limited:
        return reply.means(Outcome.RATE_LIMITED, said)
    if status == HTTPStatus.NOT_FOUND:
        said += " (there is no such repository or workflow, or the token may not see it)"
    return reply.means(reply.outcome, said)


def forward(runs: Path, reporter: Reporter) -> Delivery:
    """Post the report that the environment holds.

    Args:
        runs: a folder is made in it, with the report's outbox.
        reporter: what reporting takes.

    Raises:
        SpyreCiError: there is none, it has the wrong form, or the settings cannot be used.
    """
    report = reporter.report
    if report.endpoint in {EMBEDDED, NONE}:
        raise UsageError(
            f"report.endpoint is `{report.endpoint}`, but a report is forwarded to a remote server",
            where="report.endpoint",
            remedy="set SPYRE_CI__REPORT__ENDPOINT to the relay's URL",
        )
    text = reporter.environ.get(VARIABLE, "")
    payload = parse(text, repository=report.repository)
    if reason := no_commit(payload, reporter):
        raise _bad(reason)
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12]
    run_dir = runs / f"handed-{digest}"
    reporter.outbox(run_dir).enqueue(reporter.identity_of(payload), payload)
    return reporter.finish(run_dir, send_waiting(run_dir, reporter))


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
            "there is no report",
            where=VARIABLE,
            remedy="start the workflow by `spyre-ci hud send` in another CI",
        )
    if len(text) > MAX_INPUT_CHARACTERS:
        raise _bad(f"has {len(text)} characters, more than {MAX_INPUT_CHARACTERS}")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise _bad("is not valid JSON") from None
    if not isinstance(content, dict):
        raise _bad("is not a JSON object")
    reasons = [*_foreign(content), *check(content, repository=repository)] or [*_restricted(content)]
    if reasons:
        raise _bad("; ".join(reasons[:SHOWN]))
    return content


def _foreign(content: Mapping[str, Any]) -> Iterator[str]:
    """Keys we never write: what cannot be checked is not passed on with our name."""
    for prefix, known in KEYS.items():
        table: Any = content
        for name in prefix.split(".")[:-1]:
            table = table.get(name) if isinstance(table, dict) else None
        if isinstance(table, dict):
            yield from (f"{prefix}{key[:80]!r} is not a key of a report" for key in table if key not in known)


def _restricted(content: Mapping[str, Any]) -> Iterator[str]:
    if content["event_type"] not in NIGHTLY_EVENTS:
        yield f"event_type: only {' and '.join(sorted(NIGHTLY_EVENTS))} are forwarded"
    upstream = content["payload"].get("repository", {}).get("full_name")
    if upstream != UPSTREAM_REPOSITORY:
        yield f"payload.repository.full_name: must be {UPSTREAM_REPOSITORY} (seen: {str(upstream)[:80]!r})"
    if not re.fullmatch(r"[A-Za-z0-9._+-]{1,255}", content["delivery_id"]):
        yield f"delivery_id: is neither a commit nor a version (seen: {content['delivery_id'][:80]!r})"


def _bad(what: str) -> BadFileError:
    return BadFileError(what, where=VARIABLE, remedy="pass the report of `spyre-ci hud send` on unchanged")
