"""The routes of the stand-in of GitHub's API: what each takes, refuses and answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.github_api import (
    _REPO,
    MAX_BODY,
    NOT_FOUND,
    NOW,
    Ask,
    error,
    not_for_integrations,
    one_of,
    pull,
    route,
)
from tests.stand_in import Answer


@route("GET", _REPO + "/issues")
def _list_issues(ask: Ask) -> Answer:
    wanted = {"state": ask.query.get("state", "open"), "creator": ask.query.get("creator")}
    rows = [one for one in ask.repository.issues.values() if one["state"] == wanted["state"]]
    return ask.page([one for one in rows if wanted["creator"] in {None, one["user"]["login"]}])


@route("POST", _REPO + "/issues")
def _open_issue(ask: Ask) -> Answer:
    if wrong := _wrong_body(ask.body):
        return wrong
    number = next(ask.api.ids)
    made = {"number": number, "state": "open", "user": {"login": ask.login}, **ask.body}
    ask.repository.issues[number] = made
    return Answer(status=201, body=made)


@route("PATCH", _REPO + "/issues/{number}")
def _edit_issue(ask: Ask) -> Answer:
    found = ask.repository.issues.get(ask.number("number"))
    if found is None:
        return NOT_FOUND
    found.update(ask.body)
    return Answer(body=found)


@route("GET", _REPO + "/issues/{number}/comments")
def _list_comments(ask: Ask) -> Answer:
    of = ask.number("number")
    return ask.page([one for one in ask.repository.comments.values() if one["issue"] == of])


@route("POST", _REPO + "/issues/{number}/comments")
def _create_comment(ask: Ask) -> Answer:
    if wrong := _wrong_body(ask.body):
        return wrong
    number = next(ask.api.ids)
    ask.repository.comments[number] = {
        "id": number,
        "issue": ask.number("number"),
        "body": ask.body["body"],
        "user": {"login": ask.login, "type": "Bot" if ask.login.endswith("[bot]") else "User"},
        "author_association": "NONE",
        "html_url": f"https://github.com/o/r/pull/{ask.number('number')}#issuecomment-{number}",
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Answer(status=201, body=ask.repository.comments[number])


@route("GET", _REPO + "/issues/comments/{id}")
def _get_comment(ask: Ask) -> Answer:
    return one_of(ask.repository.comments, ask.number("id"))


@route("PATCH", _REPO + "/issues/comments/{id}")
def _edit_comment(ask: Ask) -> Answer:
    found = ask.repository.comments.get(ask.number("id"))
    if found is None:
        return NOT_FOUND
    if wrong := _wrong_body(ask.body):
        return wrong
    if found["user"]["login"] != ask.login:
        return not_for_integrations()
    found["body"] = ask.body["body"]
    return Answer(body=found)


@route("DELETE", _REPO + "/issues/comments/{id}")
def _delete_comment(ask: Ask) -> Answer:
    gone = ask.repository.comments.pop(ask.number("id"), None)
    return NOT_FOUND if gone is None else Answer(status=204)


def _wrong_body(body: Any) -> Answer | None:
    text = body.get("body") if isinstance(body, dict) else None
    found = {"resource": "IssueComment", "code": "custom", "field": "body"}
    if not isinstance(text, str) or not text.strip():
        return error(422, "Validation Failed", found | {"code": "missing_field"})
    if len(text) > MAX_BODY:
        return error(
            422,
            "Validation Failed",
            found | {"message": f"body is too long (maximum is {MAX_BODY} characters)"},
        )
    return None


@route("GET", _REPO + "/pulls")
def _list_pulls(ask: Ask) -> Answer:
    query = ask.query
    state = query.get("state", "open")
    rows = [
        one
        for one in ask.repository.pulls.values()
        if state in {"all", one["state"]}
        and query.get("head", one["head"]["label"]) == one["head"]["label"]
        and query.get("base", one["base"]["ref"]) == one["base"]["ref"]
    ]
    newest_first = query.get("direction", "desc") != "asc"
    return ask.page(sorted(rows, key=lambda one: int(one["number"]), reverse=newest_first))


@route("POST", _REPO + "/pulls")
def _create_pull(ask: Ask) -> Answer:
    body = ask.body if isinstance(ask.body, dict) else {}
    branches, names = ask.repository.branches, ask.names
    head, base = str(body.get("head", "")), str(body.get("base", ""))
    resource = {"resource": "PullRequest"}
    for field, branch in (("head", head), ("base", base)):
        if branch not in branches:
            return error(422, "Validation Failed", resource | {"field": field, "code": "invalid"})
    if len(str(body.get("body") or "")) > MAX_BODY:
        message = f"body is too long (maximum is {MAX_BODY} characters)"
        wrong = resource | {"field": "body", "code": "custom", "message": message}
        return error(422, "Validation Failed", wrong)
    repository = f"{names['owner']}/{names['repo']}"
    label = f"{names['owner']}:{head}"
    for one in ask.repository.pulls.values():
        if one["head"]["label"] == label and one["base"]["ref"] == base and one["state"] == "open":
            message = f"A pull request already exists for {label}."
            return error(422, "Validation Failed", resource | {"code": "custom", "message": message})
    number = next(ask.api.ids)
    made = pull(number, sha=branches[head], ref=head, head=repository, author=ask.login, base=base)
    made |= {
        "title": body.get("title"),
        "body": body.get("body"),
        "html_url": f"https://github.com/{repository}/pull/{number}",
    }
    ask.repository.pulls[number] = made
    return Answer(status=201, body=made)


@route("GET", _REPO)
def _get_repository(ask: Ask) -> Answer:
    name = f"{ask.names['owner']}/{ask.names['repo']}"
    return Answer(body={"full_name": name, "default_branch": ask.repository.default_branch})


@route("GET", _REPO + "/pulls/{number}")
def _get_pull(ask: Ask) -> Answer:
    return one_of(ask.repository.pulls, ask.number("number"))


@route("GET", _REPO + "/commits/{sha}/pulls")
def _pulls_of_commit(ask: Ask) -> Answer:
    return ask.page([one for one in ask.repository.pulls.values() if one["head"]["sha"] == ask.names["sha"]])


@route("GET", _REPO + "/commits/{sha}")
def _get_commit(ask: Ask) -> Answer:
    return one_of(ask.repository.commits, ask.names["sha"])


@route("GET", _REPO + "/branches")
def _list_branches(ask: Ask) -> Answer:
    return ask.page([{"name": name, "commit": {"sha": sha}} for name, sha in ask.repository.branches.items()])


@route("GET", _REPO + "/branches/{ref}")
def _get_branch(ask: Ask) -> Answer:
    name = ask.names["ref"]
    sha = ask.repository.branches.get(name)
    return NOT_FOUND if sha is None else Answer(body={"name": name, "commit": {"sha": sha}})


@route("GET", _REPO + "/collaborators/{login}/permission")
def _permission(ask: Ask) -> Answer:
    found = ask.repository.permissions.get(ask.names["login"])
    return NOT_FOUND if found is None else Answer(body={"permission": found})


@route("GET", _REPO + "/actions/runs")
def _list_runs(ask: Ask) -> Answer:
    return ask.page(_runs(ask), "workflow_runs")


@route("GET", _REPO + "/actions/workflows/{file}/runs")
def _list_runs_of(ask: Ask) -> Answer:
    path = f".github/workflows/{ask.names['file']}"
    return ask.page([one for one in _runs(ask) if one["path"] == path], "workflow_runs")


def _runs(ask: Ask) -> list[dict[str, Any]]:
    query = ask.query
    rows = [
        one
        for one in ask.repository.runs.values()
        if query.get("head_sha", one["head_sha"]) == one["head_sha"]
        and query.get("event", one["event"]) == one["event"]
        and query.get("branch", one["head_branch"]) == one["head_branch"]
        and query.get("status", one["status"]) in {one["status"], one["conclusion"]}
        and query.get("created", "").removeprefix(">=") <= one["created_at"]
        and one["id"] not in ask.repository.unlisted
    ]
    return sorted(rows, key=lambda one: (one["created_at"], one["id"]), reverse=True)


@route("GET", _REPO + "/actions/runs/{id}")
def _get_run(ask: Ask) -> Answer:
    return one_of(ask.repository.runs, ask.number("id"))


@route("GET", _REPO + "/actions/runs/{id}/jobs")
def _list_jobs(ask: Ask) -> Answer:
    return ask.page(ask.repository.jobs.get(ask.number("id"), []), "jobs")


@route("GET", _REPO + "/actions/runs/{id}/artifacts")
def _list_artifacts(ask: Ask) -> Answer:
    of = ask.number("id")
    rows = [one for one in ask.repository.artifacts.values() if one["workflow_run"]["id"] == of]
    wanted = ask.query.get("name")
    return ask.page([one for one in rows if wanted in {None, one["name"]}], "artifacts")


@route("GET", _REPO + "/actions/artifacts/{id}/zip")
def _download(ask: Ask) -> Answer:
    found = ask.repository.artifacts.get(ask.number("id"))
    if found is None:
        return NOT_FOUND
    if found["expired"]:
        return error(410, "Artifact has expired")
    names = ask.names
    where = f"http://{ask.api.host}/_store/{names['owner']}/{names['repo']}/{found['id']}"
    return Answer(status=302, headers={"location": where})


@route("POST", _REPO + "/statuses/{sha}")
def _create_status(ask: Ask) -> Answer:
    body = ask.body if isinstance(ask.body, dict) else {}
    resource = {"resource": "Status", "code": "custom"}
    if not re.fullmatch(r"[0-9a-f]{40}", ask.names["sha"]):
        return error(422, f"No commit found for SHA: {ask.names['sha']}")
    if body.get("state") not in {"error", "failure", "pending", "success"}:
        return error(
            422,
            "Validation Failed",
            resource | {"field": "state", "message": "state is not included in the list"},
        )
    if len(body.get("description") or "") > 140:
        message = "description is too long (maximum is 140 characters)"
        return error(422, "Validation Failed", resource | {"field": "description", "message": message})
    made = {"id": next(ask.api.ids), **body, "creator": {"login": ask.login}}
    ask.repository.statuses.setdefault(ask.names["sha"], []).insert(0, made)
    return Answer(status=201, body=made)


@route("GET", _REPO + "/commits/{sha}/statuses")
def _list_statuses(ask: Ask) -> Answer:
    return ask.page(ask.repository.statuses.get(ask.names["sha"], []))


@route("GET", _REPO + "/hooks")
def _list_hooks(ask: Ask) -> Answer:
    return ask.page([_shown_hook(one) for one in ask.repository.hooks.values()])


@route("POST", _REPO + "/hooks")
def _create_hook(ask: Ask) -> Answer:
    body = ask.body if isinstance(ask.body, dict) else {}
    if wrong := _wrong_hook(ask, body, None):
        return wrong
    number = next(ask.api.ids)
    ask.repository.hooks[number] = {
        "id": number,
        "type": "Repository",
        "name": "web",
        "active": body.get("active", True),
        "events": list(body.get("events") or ["push"]),
        "config": {"content_type": "form", "insecure_ssl": "0", **body["config"]},
        "created_at": NOW,
        "updated_at": NOW,
        "last_response": {"code": None, "status": "unused", "message": None},
    }
    return Answer(status=201, body=_shown_hook(ask.repository.hooks[number]))


@route("GET", _REPO + "/hooks/{id}")
def _get_hook(ask: Ask) -> Answer:
    found = ask.repository.hooks.get(ask.number("id"))
    return NOT_FOUND if found is None else Answer(body=_shown_hook(found))


@route("PATCH", _REPO + "/hooks/{id}")
def _edit_hook(ask: Ask) -> Answer:
    found = ask.repository.hooks.get(ask.number("id"))
    body = ask.body if isinstance(ask.body, dict) else {}
    if found is None:
        return NOT_FOUND
    if "config" in body and (wrong := _wrong_hook(ask, body, found["id"])):
        return wrong
    found.update({key: body[key] for key in ("active", "events", "config") if key in body})
    return Answer(body=_shown_hook(found))


@route("DELETE", _REPO + "/hooks/{id}")
def _delete_hook(ask: Ask) -> Answer:
    gone = ask.repository.hooks.pop(ask.number("id"), None)
    return NOT_FOUND if gone is None else Answer(status=204)


def _wrong_hook(ask: Ask, body: Mapping[str, Any], own: int | None) -> Answer | None:
    config = body.get("config")
    hook = {"resource": "Hook", "code": "custom"}
    if not isinstance(config, dict) or not str(config.get("url", "")).startswith(("http://", "https://")):
        return error(
            422, "Validation Failed", hook | {"field": "url", "message": "url is missing or not a URL"}
        )
    for one in ask.repository.hooks.values():
        same = one["config"]["url"] == config["url"]
        if one["id"] != own and same and set(one["events"]) & set(body.get("events", one["events"])):
            return error(
                422, "Validation Failed", hook | {"message": "Hook already exists on this repository"}
            )
    return None


def _shown_hook(hook: Mapping[str, Any]) -> dict[str, Any]:
    """A hook as it is told: GitHub never gives its secret back."""
    config = dict(hook["config"])
    if config.get("secret"):
        config["secret"] = "********"
    return {**hook, "config": config}
