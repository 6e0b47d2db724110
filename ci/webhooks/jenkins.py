"""Starting a Jenkins job over HTTP by its parameters.

Jenkins takes what may be a request of a foreign page only with a crumb, which it gives to who asks for one
and binds to the session; a user's API token does without, a password does not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from ci.addresses import shown, without_secrets
from ci.findings import escaped
from ci.webhooks.calls import Answer, Caller
from ci.webhooks.jenkins_errors import JenkinsAwayError, JenkinsDeniedError, JenkinsRefusedError

# By this a job, and whoever asks what was started, knows a start that came twice.
KEY = "IDEMPOTENCY_KEY"
# So many of a job's last builds are looked at for a start whose answer was lost.
LATEST = 100


class Jenkins:
    """A Jenkins, as one user.

    Args:
        caller: makes requests with the user's name and token.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._crumb: dict[str, str] | None = None

    def close(self) -> None:
        """Let go of the connection."""
        self._caller.close()

    def start(self, job: str, parameters: Mapping[str, str]) -> str:
        """Start a job; where it waits in the queue, as far as Jenkins says.

        Args:
            job: its path.
            parameters: it is started with; those it does not declare are dropped by Jenkins in silence.

        Raises:
            JenkinsAwayError: there is no answer, or none that says whether it was taken.
            JenkinsDeniedError: the user may not.
            JenkinsRefusedError: there is no such job, or it takes no parameters.
        """
        for last in (False, True):
            answer = self._caller.call(
                "POST", f"{job_path(job)}buildWithParameters", form=parameters, headers=self._crumbs()
            )
            # A crumb ends with its session; what was refused for it was not done.
            if answer.status == 403 and "crumb" in answer.text.lower() and not last:  # noqa: PLR2004  # HTTP's
                self._crumb = None
                continue
            break
        where = answer.headers.get("location", "")
        # A plain 200 is the page of a proxy, where people log in, and no start.
        if answer.status == 201 or ("/queue/item/" in where and answer.status < 400):  # noqa: PLR2004  # the same
            return shown(where) if where else ""
        raise refusal(answer, f"job {job}")

    def has(self, job: str, key: str) -> bool:
        """Whether a start with this key waits in the queue or has become a build.

        The queue first: what leaves it meanwhile is a build when that is asked for.

        Raises:
            JenkinsAwayError: there is no answer.
            JenkinsDeniedError: the user may not look.
        """
        inside = "actions[parameters[name,value]]"
        queue = self._json("/queue/api/json", f"items[task[url],{inside}]")
        mine = [
            one
            for one in _rows(queue, "items")
            if job_path(job) in str(_table(one.get("task")).get("url", ""))
        ]
        if any(_holds(one, key) for one in mine):
            return True
        builds = self._json(f"{job_path(job)}api/json", f"builds[{inside}]{{0,{LATEST}}}")
        return any(_holds(one, key) for one in _rows(builds, "builds"))

    def _crumbs(self) -> dict[str, str]:
        if self._crumb is None:
            answer = self._caller.call("GET", "/crumbIssuer/api/json")
            if answer.status == 404:  # noqa: PLR2004  # HTTP's: this Jenkins wants none
                self._crumb = {}
            elif not answer.ok:
                raise refusal(answer, "its crumb")
            else:
                told = _table(_content(answer))
                name, value = str(told.get("crumbRequestField", "")), str(told.get("crumb", ""))
                fit = re.fullmatch(r"[A-Za-z0-9-]{1,80}", name) and re.fullmatch(r"[\x21-\x7e]{1,400}", value)
                self._crumb = {name: value} if fit else {}
        return self._crumb

    def _json(self, path: str, tree: str) -> Any:
        answer = self._caller.call("GET", path, query={"tree": tree})
        if not answer.ok:
            raise refusal(answer, path)
        return _content(answer)


def job_path(job: str) -> str:
    """Where a job is, below Jenkins' address: `/job/spyre/job/pull-request/`."""
    return "/" + "".join(f"job/{quote(part, safe='')}/" for part in job.split("/"))


def refusal(answer: Answer, what: str) -> JenkinsAwayError | JenkinsDeniedError | JenkinsRefusedError:
    """The error an answer is.

    Args:
        answer: one that did not do it.
        what: was asked for.
    """
    text = f"Jenkins answers {answer.status}" + (f": {said}" if (said := _said(answer)) else "")
    login = "login" in urlsplit(answer.headers.get("location", "")).path.lower()
    if answer.status in {401, 403} or login:
        return JenkinsDeniedError(
            text,
            where=what,
            remedy="give a user and an API token of it that may read and build the job, in the variables of "
            "`jenkins.user` and `jenkins.token`",
        )
    if answer.status >= 500 or answer.ok or answer.status in {408, 409, 425, 429}:  # noqa: PLR2004  # HTTP's
        # 409: somebody has disabled the job for a while.
        return JenkinsAwayError(text, where=what, remedy="the next pass tries it again")
    return JenkinsRefusedError(
        text,
        where=what,
        remedy="check `jenkins.url`, the job's path, that it has parameters, and that the user may see it",
    )


def _content(answer: Answer) -> Any:
    try:
        return json.loads(answer.text)
    except (ValueError, RecursionError) as error:
        raise JenkinsAwayError(
            "what answers is no Jenkins: its answer is no JSON", remedy="check `jenkins.url`"
        ) from error


def _holds(row: Mapping[str, Any], key: str) -> bool:
    return any(
        (one.get("name"), one.get("value")) == (KEY, key)
        for action in _rows(row, "actions")
        for one in _rows(action, "parameters")
    )


def _rows(content: Any, name: str) -> list[Mapping[str, Any]]:
    rows = _table(content).get(name)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _said(answer: Answer) -> str:
    """Jenkins' own words, without the page around them."""
    return _short(re.sub(r"<[^>]{0,500}>", " ", answer.text[:5000]))


def _short(text: str) -> str:
    return escaped(" ".join(without_secrets(text).split()))[:200]
