"""A Jenkins over HTTP, as one user: asking, and starting a job by its parameters.

Jenkins takes what may be a request of a foreign page only with a crumb, which it gives to who asks for one
and binds to the session; a user's API token does without, a password does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from ci.core.addresses import shown
from ci.jenkins.answers import content_of, refusal, rows_of, table_of
from ci.jenkins.calls import Answer, Caller

# By this a job, and whoever asks what was started, knows a start that came twice.
KEY = "IDEMPOTENCY_KEY"
# So many of a job's last builds are looked at for a start whose answer was lost.
LATEST = 100
_PARAMETERS = "actions[parameters[name,value]]"


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

    def get(self, path: str, tree: str) -> Any:
        """What a path holds, narrowed to a tree.

        Raises:
            JenkinsAwayError: there is no answer, or none that is JSON.
            JenkinsDeniedError: the user may not look.
            JenkinsMissingError: there is no such thing.
        """
        answer = self._caller.call("GET", f"{path}api/json", query={"tree": tree})
        if not answer.ok:
            raise refusal(answer, path)
        return content_of(answer)

    def post(self, path: str, form: Mapping[str, str] | None = None) -> Answer:
        """Ask for a change; the answer, of whatever status.

        Raises:
            JenkinsAwayError: there is no answer: it may have been done all the same.
        """
        answer = self._caller.call("POST", path, form=form, headers=self._crumbs())
        # A crumb ends with its session; what was refused for it was not done.
        if answer.status == 403 and "crumb" in answer.text.lower():  # noqa: PLR2004  # HTTP's
            self._crumb = None
            answer = self._caller.call("POST", path, form=form, headers=self._crumbs())
        return answer

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
        answer = self.post(f"{job_path(job)}buildWithParameters", parameters)
        where = answer.headers.get("location", "")
        # A plain 200 is the page of a proxy, where people log in, and no start.
        if answer.status == 201 or ("/queue/item/" in where and answer.status < 400):  # noqa: PLR2004  # HTTP's
            return shown(where) if where else ""
        raise refusal(answer, f"job {job}")

    def started_before(self, job: str, key: str) -> bool:
        """Whether a start with a key waits in the queue, or is one of the job's last builds.

        The queue first: what leaves it meanwhile is a build when that is asked for.

        Raises:
            JenkinsAwayError: there is no answer.
            JenkinsDeniedError: the user may not look.
            JenkinsMissingError: there is no such job.
        """
        queue = self.get("/queue/", f"items[task[url],{_PARAMETERS}]")
        for one in rows_of(queue, "items"):
            if job_path(job) in str(table_of(one.get("task")).get("url", "")) and _key(one) == key:
                return True
        told = self.get(job_path(job), f"builds[{_PARAMETERS}]{{0,{LATEST}}}")
        return any(_key(row) == key for row in rows_of(told, "builds"))

    def _crumbs(self) -> dict[str, str]:
        if self._crumb is None:
            answer = self._caller.call("GET", "/crumbIssuer/api/json")
            if answer.status == 404:  # noqa: PLR2004  # HTTP's: this Jenkins wants none
                self._crumb = {}
            elif not answer.ok:
                raise refusal(answer, "its crumb")
            else:
                told = table_of(content_of(answer))
                name, value = str(told.get("crumbRequestField", "")), str(told.get("crumb", ""))
                fit = re.fullmatch(r"[A-Za-z0-9-]{1,80}", name) and re.fullmatch(r"[\x21-\x7e]{1,400}", value)
                self._crumb = {name: value} if fit else {}
        return self._crumb


def job_path(job: str) -> str:
    """Where a job is, below Jenkins' address: `/job/spyre/job/pull-request/`."""
    return "/" + "".join(f"job/{quote(part, safe='')}/" for part in job.split("/"))


def _key(row: Mapping[str, Any]) -> str:
    """The key that a start was made with; empty where it has none."""
    given = (one for action in rows_of(row, "actions") for one in rows_of(action, "parameters"))
    return next((str(one.get("value", "")) for one in given if one.get("name") == KEY), "")
