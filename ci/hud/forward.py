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
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ci.config import Settings
from ci.core.errors import BadFileError, SettingsError, SpyreCiError, UsageError
from ci.core.http import is_private
from ci.core.text import one_line
from ci.hud import oidc
from ci.hud.answers import REMEDIES as CALLBACKS
from ci.hud.answers import Answer, Outcome, seconds_of
from ci.hud.callback import NIGHTLY_EVENTS, UPSTREAM_REPOSITORY, RunDetails, TestResults, Workflow
from ci.hud.checks import check
from ci.hud.client import Target, no_reply
from ci.hud.delivery import flush
from ci.hud.dispatched import kept
from ci.hud.endpoint import EMBEDDED, NONE
from ci.hud.outbox import Outbox
from ci.hud.payload import SUMMARY, Ways, encode, ended_of, report_identity
from ci.hud.send import HUD_FILE, Delivery, Reporter, delivery_of, no_commit, send_waiting, tell
from ci.hud.token import find_token
from ci.hud.wire import NoReplyError, Reply, exchange
from test_selection.files import read_json, write_json

TOKEN_VARIABLE = "SPYRE_CI_GITHUB_TOKEN"  # noqa: S105  # the variable's name, not a secret
INPUT = "report"
MAX_INPUT_CHARACTERS = 65_535
BOX = "outbox-dispatch"
REMEDIES = {
    **CALLBACKS,
    Outcome.UNAUTHORIZED: f"give {TOKEN_VARIABLE} the right to start workflows there (actions: write)",
    Outcome.REFUSED: "check report.dispatch: the repository, its workflow file and the ref",
    Outcome.RETRY: "wait until GitHub answers again",
    Outcome.INVALID: "mend what is named, or report to a server of your own (report.endpoint)",
}
VARIABLE = "SPYRE_CI_REPORT"
TOP = frozenset({"event_type", "delivery_id", "payload", "workflow"})
PAYLOAD = frozenset({"head_sha", "repository", "spyre_ci"})
SHOWN = 5


def is_handed_over(run_dir: Path, reporter: Reporter) -> bool:
    """Whether a run is reported by the repository of `report.dispatch`: a nightly of a CI without OIDC."""
    wanted = reporter.settings.model.report.dispatch.repository is not None
    here = not oidc.offered(reporter.environ) and (run_dir / SUMMARY).is_file()
    return wanted and here and kept(run_dir) is None


def hand_over(run_dir: Path, reporter: Reporter) -> Delivery:
    """Ask the repository of `report.dispatch` to report a run.

    Raises:
        SpyreCiError: the settings or the token cannot be used, or there is nothing such to report.
    """
    target, report = target_of(reporter), reporter.settings.model.report
    path = run_dir / SUMMARY
    ways = Ways(environ=reporter.environ, job_name=report.job_name)
    payload = ended_of(read_json(path, "summary"), ways, path=path)
    identity = report_identity(payload, repository=target.repository)
    box = Outbox(run_dir, reporter.effects.clock, name=BOX)
    box.enqueue(identity, payload)
    sent = flush(
        run_dir,
        target,
        reporter.effects,
        budget_s=report.budget_s,
        send=HandOver(ref=report.dispatch.ref),
        box=box,
        remedies=REMEDIES,
    )
    shown = f"{target.repository} on GitHub ({report.dispatch.workflow})"
    delivery = delivery_of(sent, endpoint=shown, done="dispatched")
    write_json(run_dir / HUD_FILE, "hud", asdict(delivery))
    tell(delivery, reporter)
    return delivery


def target_of(reporter: Reporter) -> Target:
    """Where `report.dispatch` hands reports to.

    Raises:
        SettingsError: no repository is named, the address cannot be trusted with the token, or there is none.
    """
    settings = reporter.settings
    report, wanted = settings.model.report, settings.model.report.dispatch
    if wanted.repository is None:
        raise SettingsError(
            "no repository is named that reports for this CI",
            where="report.dispatch.repository",
            remedy="set it to an allow-listed owner/name that has the workflow",
        )
    _check_api(settings)
    file = None if wanted.token_file is None else settings.resolve(wanted.token_file)

    def token() -> str:
        return find_token(
            reporter.environ,
            file,
            variable=TOKEN_VARIABLE,
            where="report.dispatch.token_file",
            remedy=f"set {TOKEN_VARIABLE}, or name a file that holds a token which may start workflows",
        )

    token()  # said at once and clearly
    url = f"{wanted.api.rstrip('/')}/repos/{wanted.repository}/actions/workflows/{wanted.workflow}/dispatches"
    return Target(url=url, repository=wanted.repository, token=token, timeout_s=report.timeout_s)


class HandOver:
    """Makes one attempt at handing a report over.

    Args:
        ref: branch or tag whose workflow file is run.
    """

    def __init__(self, *, ref: str) -> None:
        self._ref = ref

    def __call__(self, payload: Mapping[str, Any], target: Target, *, doubtful: bool) -> Answer:
        """What became of it; a nightly's report may arrive twice, so no doubt changes anything."""
        del doubtful
        text = encode(payload).decode()
        if len(text) > MAX_INPUT_CHARACTERS:
            detail = (
                f"it has {len(text)} characters, more than the {MAX_INPUT_CHARACTERS} GitHub takes as inputs"
            )
            return Answer(outcome=Outcome.INVALID, status=None, detail=detail)
        try:
            token = target.token()
        except SpyreCiError as error:
            return Answer(outcome=Outcome.UNAUTHORIZED, status=None, detail=one_line(str(error)))
        body = json.dumps({"ref": self._ref, "inputs": {INPUT: text}}).encode()
        headers = {
            "Accept": "application/vnd.github+json",
            "Content-Type": "application/json",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        try:
            reply = exchange(
                "POST", target.url, token=token, timeout_s=target.timeout_s, data=body, headers=headers
            )
        except NoReplyError as error:
            return no_reply(error, token)
        return classify(replace(reply, body=reply.body.replace(token, "***")))


def classify(reply: Reply) -> Answer:
    """Read GitHub's answer to a dispatch (docs.github.com, "Create a workflow dispatch event")."""
    status = reply.status
    shown = one_line(reply.body)
    said = f"GitHub: HTTP {status}: {shown}" if shown else f"GitHub: HTTP {status}"
    if status in {200, 201, 204}:
        return Answer(outcome=Outcome.DELIVERED, status=status, detail=said)
    limited = "retry-after" in reply.headers or reply.headers.get("x-ratelimit-remaining") == "0"
    if status == 429 or (status == 403 and limited):  # noqa: PLR2004  # HTTP's own numbers
        wait_s = seconds_of(reply.headers.get("retry-after"))
        return Answer(outcome=Outcome.RATE_LIMITED, status=status, detail=said, retry_after_s=wait_s)
    if status in {401, 403}:
        return Answer(outcome=Outcome.UNAUTHORIZED, status=status, detail=said)
    if status == 408 or status >= 500:  # noqa: PLR2004  # the same
        return Answer(outcome=Outcome.RETRY, status=status, detail=said, doubtful=True)
    if status == 404:  # noqa: PLR2004  # the same
        said += " (there is no such repository or workflow, or the token may not see it)"
    return Answer(outcome=Outcome.REFUSED, status=status, detail=said)


def _check_api(settings: Settings) -> None:
    """The token can start workflows: it goes to nobody whom a settings file of a pull request names."""
    key, api = "report.dispatch.api", settings.model.report.dispatch.api
    default = type(settings.model.report.dispatch)().api
    if api != default and settings.origins.get(key, "default") == "file":
        raise SettingsError(
            "is given by a settings file, which a pull request can change",
            where=key,
            remedy="give it in the environment: SPYRE_CI__REPORT__DISPATCH__API",
        )
    if not is_private(api):
        raise SettingsError(
            "is plain http, and whoever listens on the way could read the token",
            where=key,
            remedy="set it to an https URL",
        )


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
    text = reporter.environ.get(VARIABLE, "")
    payload = parse(text, repository=report.repository)
    if reason := no_commit(payload["delivery_id"], reporter):
        raise _bad(reason)
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12]
    run_dir = runs / f"handed-{digest}"
    identity = report_identity(payload, repository=report.repository)
    Outbox(run_dir, reporter.effects.clock).enqueue(identity, payload)
    delivery = send_waiting(run_dir, reporter)
    write_json(run_dir / HUD_FILE, "hud", asdict(delivery))
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
            remedy="let `spyre-ci hud send` of another CI start the workflow",
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
    return BadFileError(what, where=VARIABLE, remedy="hand over what `spyre-ci hud send` makes")
