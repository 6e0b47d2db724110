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
from tests.jenkins_tree import narrowed
from tests.stand_in import Answer, Seen, StandIn

USER, TOKEN = "poller", "11aabbccddeeff0011223344556677889900"
NOT_FOUND = Answer(status=404, body="<html><title>Error 404 Not Found</title></html>")
Kind = Literal["status", "slow", "hang", "cut", "drop"]


class Started(dict[str, str]):
    """What was started: its parameters; in the queue first, then a build.

    Attributes:
        item: its number in the queue.
        why: it waits.
        cancelled: it was taken out of the queue.
        number: of the build; 0 before.
        building: whether the build goes on.
        result: of the build.
        files: that the build archived, by path.
    """

    item = 0
    why = "Waiting for next available executor"
    cancelled = False
    number = 0
    building = True
    result: str | None = None

    def __init__(self, given: Mapping[str, str]) -> None:
        super().__init__(given)
        self.files: dict[str, bytes] = {}


@dataclass(kw_only=True)
class Job:
    """A job: what it declares, and what was started of it; builds are numbered from 1 in their order."""

    parameters: tuple[str, ...] = ("REPOSITORY", "HEAD_SHA", "PULL_REQUEST", "BRANCH", "IDEMPOTENCY_KEY")
    disabled: bool = False
    queued: list[Started] = field(default_factory=list)
    builds: list[Started] = field(default_factory=list)
    discarded: set[int] = field(default_factory=set)

    def begin(self) -> Started:
        """Let the first that waits become a build."""
        begun = self.queued.pop(0)
        self.builds.append(begun)
        begun.number = len(self.builds)
        return begun

    def end(self, result: str = "SUCCESS", files: Mapping[str, bytes] | None = None) -> Started:
        """Let the last build end."""
        ended = self.builds[-1]
        ended.building, ended.result = False, result
        ended.files.update(files or {})
        return ended

    def kept(self) -> list[Started]:
        """The builds that nobody deleted, the newest first."""
        for number, one in enumerate(self.builds, start=1):
            one.number = number
        return [one for one in reversed(self.builds) if one.number not in self.discarded]

    @property
    def starts(self) -> list[Started]:
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
        # Items that left the queue more than five minutes ago.
        self.forgotten: set[int] = set()
        self.left: list[Started] = []
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
        if path.startswith("/queue/"):
            return self._of_queue(seen, path)
        return self._of_job(seen, path)

    def _of_queue(self, seen: Seen, path: str) -> Answer:
        jobs = self.jobs.items() if self.readable else []
        if path == "/queue/api/json":
            rows = [(name, one) for name, job in jobs for one in job.queued]
            return _told(seen, {"items": [_item(self.url, name, one) for name, one in rows]})
        if path == "/queue/cancelItem" and seen.method == "POST":
            return self._taken_out(int(seen.query["id"]))
        match = re.fullmatch(r"/queue/item/(\d+)/api/json", path)
        known = [(name, one) for name, job in jobs for one in [*job.starts, *self.left]]
        for name, one in known:
            if match and one.item == int(match[1]) and one.item not in self.forgotten:
                return _told(seen, _item(self.url, name, one))
        return NOT_FOUND

    def _taken_out(self, number: int) -> Answer:
        for job in self.jobs.values():
            for one in [one for one in job.queued if one.item == number]:
                job.queued.remove(one)
                one.cancelled = True
                self.left.append(one)
        return Answer(status=204)

    def _of_job(self, seen: Seen, path: str) -> Answer:
        match = re.fullmatch(
            r"((?:/job/[^/]+)+)/(?:(\d+)/)?(api/json|buildWithParameters|stop|artifact/.+)", path
        )
        name = "/".join(unquote(match[1]).removeprefix("/job/").split("/job/")) if match else ""
        if match is None or name not in self.jobs:
            return NOT_FOUND
        job = self.jobs[name]
        if match[3] == "buildWithParameters":
            return self._built(seen, job)
        if not self.readable:
            return Answer(status=403, body=f"{self.user} is missing the Job/Read permission")
        if match[2] is None:
            declared = [{"name": one} for one in job.parameters]
            builds = [_build(self.url, name, one) for one in job.kept()]
            about = {"name": name, "property": [{}, {"parameterDefinitions": declared}], "builds": builds}
            return _told(seen, about)
        found = next((one for one in job.kept() if one.number == int(match[2])), None)
        return NOT_FOUND if found is None else self._of_build(seen, name, found, match[3])

    def _of_build(self, seen: Seen, name: str, build: Started, what: str) -> Answer:
        if what == "api/json":
            return _told(seen, _build(self.url, name, build))
        if what == "stop" and seen.method == "POST":
            if build.building:
                build.building, build.result = False, "ABORTED"
            where = _build(self.url, name, build)["url"]
            return Answer(status=302, headers={"location": where})
        file = unquote(what.removeprefix("artifact/"))
        return Answer(body=build.files[file]) if file in build.files else NOT_FOUND

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
        started = Started({name: given.get(name, "") for name in job.parameters})
        started.item = next(self._items)
        job.queued.append(started)
        return Answer(status=201, headers={"location": f"{self.url}/queue/item/{started.item}/"})

    def refusal(self, fault: Fault) -> Answer:
        headers = {"location": fault.location} if fault.location else {}
        return Answer(status=fault.status, body=fault.text, headers=headers)


def _item(url: str, name: str, one: Started) -> dict[str, Any]:
    where = "/".join(f"job/{part}" for part in name.split("/"))
    became = {"executable": {"number": one.number, "url": f"{url}/{where}/{one.number}/"}}
    waits = one.number == 0 and not one.cancelled
    return {
        "id": one.item,
        "task": {"url": f"{url}/{where}/"},
        "why": one.why if waits else None,
        # Only what left the queue says whether it was taken out, and what it became.
        **({} if waits else {"cancelled": one.cancelled}),
        **(became if one.number else {}),
        **_actions(one),
    }


def _build(url: str, name: str, one: Started) -> dict[str, Any]:
    where = "/".join(f"job/{part}" for part in name.split("/"))
    files = [{"fileName": path.rpartition("/")[2], "relativePath": path} for path in one.files]
    return {
        "number": one.number,
        "url": f"{url}/{where}/{one.number}/",
        "queueId": one.item,
        "building": one.building,
        "result": one.result,
        "artifacts": files,
        **_actions(one),
    }


def _actions(given: Mapping[str, str]) -> dict[str, Any]:
    rows = [{"name": name, "value": value} for name, value in given.items()]
    return {"actions": [{}, {"parameters": rows}]}


def _told(seen: Seen, content: Any) -> Answer:
    """What the query's `tree` leaves of an answer, as Jenkins narrows it."""
    tree = seen.query.get("tree")
    return Answer(body=content if tree is None else narrowed(content, tree))
