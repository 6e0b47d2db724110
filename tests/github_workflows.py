"""Routes of the stand-in of GitHub's API that are of workflows: their files, starting them, ending runs."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime
from typing import Any

import yaml

from tests.github_api import _REPO, NOT_FOUND, Ask, error, route, workflow_run
from tests.stand_in import Answer

FOLDER = ".github/workflows"


@route("GET", _REPO + "/contents/{ref}")
def _get_file(ask: Ask) -> Answer:
    path = ask.names["ref"]
    text = ask.repository.workflows.get(path.removeprefix(f"{FOLDER}/"))
    branch = ask.query.get("ref", "main")
    if text is None or branch not in ask.repository.branches:
        return NOT_FOUND
    content = base64.encodebytes(text.encode()).decode()
    return Answer(body={"type": "file", "path": path, "encoding": "base64", "content": content})


@route("GET", _REPO + "/actions/workflows/{file}")
def _get_workflow(ask: Ask) -> Answer:
    file = ask.names["file"]
    known = file in ask.repository.workflows
    return Answer(body={"path": f"{FOLDER}/{file}", "state": "active"}) if known else NOT_FOUND


@route("POST", _REPO + "/actions/workflows/{file}/dispatches")
def _dispatch(ask: Ask) -> Answer:
    file, body = ask.names["file"], ask.body if isinstance(ask.body, dict) else {}
    details = body.get("return_run_details")
    if details is not None and not ask.api.tells_runs:
        message = 'Invalid request.\n\n"return_run_details" is not a permitted key.'
        return error(422, message)
    text = ask.repository.workflows.get(file)
    if text is None:
        return NOT_FOUND
    content = yaml.safe_load(text)
    if (wrong := _wrong(ask, body, content.get("on", content.get(True)))) is not None:
        return wrong
    run = _begun(ask, file, str(body["ref"]), body.get("inputs") or {}, content)
    if not details:
        return Answer(status=204)
    api = f"{ask.api.url}/repos/{ask.names['owner']}/{ask.names['repo']}/actions/runs/{run['id']}"
    return Answer(body={"workflow_run_id": run["id"], "run_url": api, "html_url": run["html_url"]})


def _wrong(ask: Ask, body: dict[str, Any], on: Any) -> Answer | None:
    if "workflow_dispatch" not in ([on] if isinstance(on, str) else on):
        return error(422, "Workflow does not have 'workflow_dispatch' trigger")
    if body.get("ref") not in ask.repository.branches:
        return error(422, f"No ref found for: {body.get('ref')}")
    declared = (on.get("workflow_dispatch") or {}) if isinstance(on, dict) else {}
    unknown = [name for name in body.get("inputs") or {} if name not in (declared.get("inputs") or {})]
    return error(422, f"Unexpected inputs provided: {json.dumps(unknown)}") if unknown else None


def _begun(ask: Ask, file: str, ref: str, given: dict[str, str], content: dict[str, Any]) -> dict[str, Any]:
    name = content.get("name", file)
    title = re.sub(
        r"\$\{\{ *inputs\.(\w+) *\}\}", lambda found: given.get(found[1], ""), content.get("run-name", name)
    )
    number = next(ask.api.ids)
    run = workflow_run(
        number, event="workflow_dispatch", path=f"{FOLDER}/{file}", status="queued", conclusion=None,
        branch=ref, name=name, title=title, created_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )  # fmt: skip
    ask.repository.runs[number] = run
    return run


@route("POST", _REPO + "/actions/runs/{id}/cancel")
def _cancel(ask: Ask) -> Answer:
    run = ask.repository.runs.get(ask.number("id"))
    if run is None:
        return NOT_FOUND
    if run["status"] == "completed":
        return error(409, "Cannot cancel a workflow run that is completed.")
    run.update(status="completed", conclusion="cancelled")
    return Answer(status=202, body={})
