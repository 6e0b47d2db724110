"""A Jenkins over HTTP, as one user of the environment: asking, and starting a job by its parameters.

Jenkins takes what may be a request of a foreign page only with a crumb, which it gives to who asks for one
and binds to the session; a user's API token does without, a password does not. An exchange follows no
redirect, takes no proxy to this machine, and does not wait for ever.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import quote, urlsplit

import requests
from urllib3.exceptions import HTTPError

from ci.config.recipient import check_recipient
from ci.core.addresses import shown, without_secrets
from ci.core.http import Answer, pieces, session
from ci.core.secrets import secret
from ci.core.text import escaped
from ci.jenkins.errors import (
    JenkinsAwayError,
    JenkinsDeniedError,
    JenkinsMissingError,
    JenkinsRefusedError,
)

# By this a job, and whoever asks what was started, knows a start that came twice.
KEY = "IDEMPOTENCY_KEY"
# So many of a job's last builds are looked at for a start whose answer was lost.
LATEST = 100
_PARAMETERS = "actions[parameters[name,value]]"
CONNECT_TIMEOUT_S = 10.0
ANSWER_BYTES = 4 << 20
USER_VARIABLE, TOKEN_VARIABLE = "SPYRE_CI_JENKINS_USER", "SPYRE_CI_JENKINS_TOKEN"


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
            remedy="give a user and an API token of it that may read and build the job, in the variables "
            "that name them: SPYRE_CI_JENKINS_USER and SPYRE_CI_JENKINS_TOKEN where nothing else is said",
        )
    if answer.status >= 500 or answer.ok or answer.status in {408, 409, 425, 429}:  # noqa: PLR2004  # HTTP's
        # 409: somebody has disabled the job for a while.
        return JenkinsAwayError(text, where=what, remedy="another time may do")
    kind = JenkinsMissingError if answer.status == 404 else JenkinsRefusedError  # noqa: PLR2004  # HTTP's
    return kind(
        text,
        where=what,
        remedy="check Jenkins' address, the job's path, that it has parameters, and that the user may see it",
    )


def content_of(answer: Answer) -> Any:
    """What an answer holds.

    Raises:
        JenkinsAwayError: it is no JSON.
    """
    try:
        return json.loads(answer.text)
    except (ValueError, RecursionError) as error:
        raise JenkinsAwayError(
            "what answers is no Jenkins: its answer is no JSON", remedy="check Jenkins' address"
        ) from error


def rows_of(content: Any, name: str) -> list[Mapping[str, Any]]:
    """The objects of a list in an answer; what is none is left out."""
    rows = table_of(content).get(name)
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def table_of(value: Any) -> Mapping[str, Any]:
    """An object of an answer; empty where it is none."""
    return value if isinstance(value, dict) else {}


def words_of(value: Any) -> str:
    """A text of an answer as it can be shown, on one short line."""
    return escaped(" ".join(without_secrets(value).split()))[:200] if isinstance(value, str) else ""


def _said(answer: Answer) -> str:
    """Jenkins' own words, without the page around them."""
    return words_of(re.sub(r"<[^>]{0,500}>", " ", answer.text[:5000]))


class Caller:
    """Makes requests below an address, with the cookies that its answers set.

    Args:
        address: of the server, without a slash at its end.
        user: its name.
        token: its password.
        timeout_s: of a whole exchange.
    """

    def __init__(self, address: str, *, user: str, token: str, timeout_s: float = 30) -> None:
        self._address, self._token, self._timeout_s = address, token, timeout_s
        self._session = session(address)
        # Given as `auth`, because requests lets a ~/.netrc entry win over a header.
        self._session.auth = (user, token)

    def close(self) -> None:
        """Let go of the connection."""
        self._session.close()

    def call(
        self,
        method: Literal["GET", "POST"],
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Make one request and read its answer, of whatever status.

        Args:
            method: GET or POST.
            path: below the address.
            query: added to it.
            form: sent as a page's form is.
            headers: besides the usual ones.

        Raises:
            JenkinsAwayError: no whole answer came.
        """
        shown = {"Accept": "application/json", **(headers or {})}
        request = requests.Request(method, self._address + path, params=query, data=form, headers=shown)
        deadline = time.monotonic() + self._timeout_s
        with self._sent(request) as response:
            body = b"".join(pieces(response, until=deadline, most_bytes=ANSWER_BYTES))
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(status=response.status_code, headers=headers, text=body.decode("utf-8", "replace"))

    @contextmanager
    def _sent(self, request: requests.Request) -> Iterator[requests.Response]:
        prepared = self._session.prepare_request(request)
        settings = self._session.merge_environment_settings(prepared.url, {}, True, None, None)
        try:
            with self._session.send(
                prepared,
                timeout=(min(CONNECT_TIMEOUT_S, self._timeout_s), self._timeout_s),
                allow_redirects=False,
                **settings,
            ) as response:
                yield response
        except (requests.RequestException, HTTPError, OSError) as error:
            if getattr(error, "filename", None) is not None:  # of a file here
                raise
            said = without_secrets(str(error)).replace(self._token, "***")[:300]
            what = f"{request.method} {request.url.removeprefix(self._address)}"
            raise JenkinsAwayError(
                f"Jenkins gives no whole answer to {what}: {said}",
                remedy="see whether it is up, and its address; another time may do",
            ) from error


def connect(
    environ: Mapping[str, str],
    url: str,
    *,
    user: str = USER_VARIABLE,
    token: str = TOKEN_VARIABLE,
    timeout_s: float = 30,
) -> Jenkins:
    """The client of a Jenkins; nothing is asked of it yet.

    Args:
        environ: the environment.
        url: of the Jenkins.
        user: variable with the user's name.
        token: variable with an API token of it.
        timeout_s: of an exchange.

    Raises:
        SettingsError: there is no user or token, or none is to be sent there.
        MissingInputError: a file with one is not there.
    """
    check_recipient(environ, url, "token for Jenkins")
    return Jenkins(
        Caller(
            url.rstrip("/"),
            user=secret(environ, user, "user for Jenkins"),
            token=secret(environ, token, "token for Jenkins"),
            timeout_s=timeout_s,
        )
    )
