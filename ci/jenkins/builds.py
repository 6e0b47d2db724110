"""What became of a start: an item of the queue, then a build, which somebody may stop and Jenkins discards.

An item stays known for five minutes after it left the queue (`Queue.LeftItem`); from then on its build is
found by the key it was started with. Which builds are kept says the job. Numbers begin anew with a job or a
Jenkins that was made anew, so that whoever comes with one compares the key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ci.jenkins.answers import refusal, rows_of, table_of, whole_of, words_of
from ci.jenkins.client import KEY, Jenkins, job_path
from ci.jenkins.errors import JenkinsMissingError

# So many of a job's last builds are looked at for a start whose answer was lost.
LATEST = 100
MAX_FILES = 20_000
_PARAMETERS = "actions[parameters[name,value]]"
_BUILD = f"number,url,building,result,{_PARAMETERS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A start that waits, or waited, in the queue.

    Attributes:
        number: of it.
        key: it was started with; empty where it has none.
        why: it waits, in Jenkins' words.
        cancelled: somebody took it out.
        build: that it became; None before.
    """

    number: int
    key: str = ""
    why: str = ""
    cancelled: bool = False
    build: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A build of a job.

    Attributes:
        number: of it.
        key: it was started with; empty where it has none.
        url: its page.
        result: SUCCESS, UNSTABLE, FAILURE, ABORTED, NOT_BUILT; empty while it runs.
    """

    number: int
    key: str = ""
    url: str = ""
    result: str = ""


def item_in(where: str) -> int | None:
    """The number of the item that a start's answer names; None where it names none."""
    found = re.search(r"/queue/item/(\d{1,18})/?$", where)
    return int(found[1]) if found else None


def find_start(jenkins: Jenkins, job: str, key: str) -> Item | Build | None:
    """The start with a key, in the queue or as one of the last builds; None where there is none.

    The queue first: what leaves it meanwhile is a build when that is asked for.

    Raises:
        JenkinsAwayError: there is no answer.
        JenkinsDeniedError: the user may not look.
        JenkinsMissingError: there is no such job.
    """
    queue = jenkins.get("/queue/", f"items[id,why,task[url],{_PARAMETERS}]")
    for one in rows_of(queue, "items"):
        mine = job_path(job) in str(table_of(one.get("task")).get("url", ""))
        if mine and _key(one) == key:
            return Item(number=whole_of(one, "id") or 0, key=key, why=words_of(one.get("why")))
    told = jenkins.get(job_path(job), f"builds[{_BUILD}]{{0,{LATEST}}}")
    builds = (_read(row, whole_of(row, "number") or 0) for row in rows_of(told, "builds"))
    return next((build for build in builds if build.key == key), None)


def item_of(jenkins: Jenkins, number: int) -> Item | None:
    """An item by its number; None where it left the queue more than five minutes ago, or never was.

    Raises:
        JenkinsError: it does not say.
    """
    try:
        told = jenkins.get(f"/queue/item/{number}/", f"id,why,cancelled,executable[number],{_PARAMETERS}")
    except JenkinsMissingError:
        return None
    row = table_of(told)
    build = whole_of(table_of(row.get("executable")), "number")
    return Item(
        number=number, key=_key(row), why=words_of(row.get("why")), cancelled=row.get("cancelled") is True,
        build=build,
    )  # fmt: skip


def build_of(jenkins: Jenkins, job: str, number: int) -> Build | None:
    """A build by its number; None where it was deleted or discarded.

    Raises:
        JenkinsError: it does not say, or there is no such job any more.
    """
    try:
        return _read(table_of(jenkins.get(f"{job_path(job)}{number}/", _BUILD)), number)
    except JenkinsMissingError:
        jenkins.get(job_path(job), "name")  # a job that is hidden or gone says nothing of the build
        return None


def stop(jenkins: Jenkins, job: str, number: int) -> None:
    """Ask a build to stop; one that ended, or is gone, is no error.

    Raises:
        JenkinsError: it was not taken.
    """
    _change(jenkins, f"{job_path(job)}{number}/stop")


def leave(jenkins: Jenkins, item: int) -> None:
    """Take an item out of the queue; one that left is no error.

    Raises:
        JenkinsError: it was not taken.
    """
    _change(jenkins, f"/queue/cancelItem?id={item}")


def files_of(jenkins: Jenkins, job: str, number: int) -> list[str]:
    """The paths of what a build archived.

    Raises:
        JenkinsError: it does not say.
    """
    told = jenkins.get(f"{job_path(job)}{number}/", f"artifacts[relativePath]{{0,{MAX_FILES}}}")
    return [str(one.get("relativePath", "")) for one in rows_of(told, "artifacts")]


def file_path(job: str, number: int, path: str) -> str:
    """Where an archived file is, below Jenkins' address."""
    return f"{job_path(job)}{number}/artifact/{quote(path)}"


def _read(row: Mapping[str, Any], number: int) -> Build:
    """A build out of an answer; until it is over its result may be what its steps came to so far."""
    over = row.get("building") is False
    url = row.get("url")
    return Build(
        number=number,
        key=_key(row),
        url=url if isinstance(url, str) and re.fullmatch(r"https?://[\x21-\x7e]{1,1000}", url) else "",
        result=words_of(row.get("result")) if over else "",
    )


def _change(jenkins: Jenkins, path: str) -> None:
    answer = jenkins.post(path)
    # Jenkins leads to a page afterwards; where that is a login, nothing was done.
    leads = 300 <= answer.status < 400 and "login" not in answer.headers.get("location", "").lower()  # noqa: PLR2004  # HTTP's
    if not (answer.ok or leads or answer.status == 404):  # noqa: PLR2004  # the same
        raise refusal(answer, path.partition("?")[0])


def _key(row: Mapping[str, Any]) -> str:
    given = (one for action in rows_of(row, "actions") for one in rows_of(action, "parameters"))
    return next((str(one.get("value", "")) for one in given if one.get("name") == KEY), "")
