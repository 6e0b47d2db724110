"""A stand-in of what starts jobs in Jenkins: real HTTP on loopback, with state, and faults on demand.

It answers as Jenkins' documentation of its remote access API says; whether a Jenkins does is not shown by it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote

from tests import stand_in
from tests.stand_in import Answer, Seen, StandIn

USER, TOKEN = "poller", "11aabbccddeeff0011223344556677889900"
Kind = Literal["status", "slow", "hang", "cut", "drop"]


@dataclass(kw_only=True)
class Job:
    """A job: what it declares, and what was started of it."""

    parameters: tuple[str, ...] = ("REPOSITORY", "HEAD_SHA", "PULL_REQUEST", "BRANCH", "IDEMPOTENCY_KEY")
    disabled: bool = False
    queued: list[dict[str, str]] = field(default_factory=list)
    builds: list[dict[str, str]] = field(default_factory=list)

    @property
    def starts(self) -> list[dict[str, str]]:
        return [*self.builds, *self.queued]

    def keys(self) -> list[str]:
        return [one.get("IDEMPOTENCY_KEY", "") for one in self.starts]


@dataclass(kw_only=True)
class Fault(stand_in.Fault):
    """A fault; `status` answers with `status`, `text` and where that leads."""

    status: int
    text: str
    location: str


class JenkinsApi(StandIn[Fault]):
    """The server."""

    begun = b"HTTP/1.1 201 Created\r\ncontent-length: 1000\r\n\r\n{"

    def __init__(self, *, crumbs: bool = False, prefix: str = "") -> None:
        super().__init__(prefix=prefix)
        self.jobs: dict[str, Job] = {}
        self.user, self.token = USER, TOKEN
        # Whether it wants a crumb of everybody, as it does of who shows a password.
        self.crumbs = crumbs
        self.crumb = "crumb-1"
        self.readable = True
        self._items = count(1)

    def fail(
        self,
        kind: Kind = "status",
        *,
        method: str = "",
        path: str = "",
        times: int = 1,
        status: int = 503,
        text: str = "Jenkins is getting ready to work",
        location: str = "",
        taken: bool = False,
        seconds: float = 5,
    ) -> None:
        """Let the next requests fail that fit; with `taken` they are done all the same, `slow` only late."""
        self.faults.append(
            Fault(
                kind=kind, method=method, path=path, times=times, status=status, text=text,
                location=location, taken=taken, seconds=seconds,
            )
        )  # fmt: skip

    def asked(self, pattern: str) -> list[Seen]:
        return [one for one in self.seen if re.search(pattern, one.path)]

    def answer(self, seen: Seen) -> Answer:
        """What is answered where nothing fails."""
        path = seen.path.removeprefix(self.prefix)
        shown = base64.b64encode(f"{self.user}:{self.token}".encode()).decode()
        if seen.headers.get("authorization") != f"Basic {shown}":
            return Answer(status=401, body="<html><title>Error 401 Unauthorized</title></html>")
        if path == "/crumbIssuer/api/json":
            return self._crumb_issued()
        if path == "/queue/api/json":
            rows = [(name, one) for name, job in self.jobs.items() for one in job.queued if self.readable]
            return Answer(body={"items": [_item(self.url, name, one) for name, one in rows]})
        return self._of_job(seen, path)

    def _of_job(self, seen: Seen, path: str) -> Answer:
        match = re.fullmatch(r"((?:/job/[^/]+)+)/(api/json|buildWithParameters)", path)
        name = "/".join(unquote(match[1]).removeprefix("/job/").split("/job/")) if match else ""
        if match is None or name not in self.jobs:
            return Answer(status=404, body="<html><title>Error 404 Not Found</title></html>")
        if match[2] == "buildWithParameters":
            return self._built(seen, self.jobs[name])
        if not self.readable:
            return Answer(status=403, body=f"{self.user} is missing the Job/Read permission")
        return Answer(body={"builds": [_actions(one) for one in reversed(self.jobs[name].builds)]})

    def _crumb_issued(self) -> Answer:
        if not self.crumbs:
            return Answer(status=404, body="<html>Not Found</html>")
        body = {"crumbRequestField": "Jenkins-Crumb", "crumb": self.crumb}
        return Answer(body=body, headers={"set-cookie": "JSESSIONID.1=node01; Path=/; HttpOnly"})

    def _built(self, seen: Seen, job: Job) -> Answer:
        if seen.method != "POST":
            return Answer(status=405, body="Only POST")
        good = seen.headers.get("jenkins-crumb") == self.crumb and "JSESSIONID.1=node01" in seen.headers.get(
            "cookie", ""
        )
        if self.crumbs and not good:
            return Answer(status=403, body="<html>No valid crumb was included in the request</html>")
        if job.disabled:
            return Answer(status=409, body="is not buildable")
        if not job.parameters:
            return Answer(status=400, body="This job is not parameterized")
        given = dict(parse_qsl(seen.body.decode(), keep_blank_values=True))
        # What is not declared is dropped without a word.
        job.queued.append({name: given.get(name, "") for name in job.parameters})
        return Answer(status=201, headers={"location": f"{self.url}/queue/item/{next(self._items)}/"})

    def refusal(self, fault: Fault) -> Answer:
        headers = {"location": fault.location} if fault.location else {}
        return Answer(status=fault.status, body=fault.text, headers=headers)


def _item(url: str, name: str, given: Mapping[str, str]) -> dict[str, Any]:
    where = "/".join(f"job/{part}" for part in name.split("/"))
    return {"task": {"url": f"{url}/{where}/"}, **_actions(given)}


def _actions(given: Mapping[str, str]) -> dict[str, Any]:
    rows = [{"name": name, "value": value} for name, value in given.items()]
    return {"actions": [{}, {"parameters": rows}]}
