"""What began a pipeline, as its CI says: which event, which commits, which labels, whose fork.

GitHub's event is data that anybody may have written, read with care.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci.core.errors import BadFileError, MissingInputError, UsageError

_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# GitHub sends no payload above 25 MB.
MAX_BYTES = 32 << 20
_REMEDY = "run this in the job that the event began"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What began a pipeline.

    Attributes:
        name: GitHub's name of it, such as pull_request; `local` where no CI runs us.
        head: the commit that is asked about; empty where it is not said.
        base: the commit it is compared with; empty where it is not said.
        branch: the branch it is compared with, where the CI names no commit.
        labels: of the pull request.
        labelled: the label that was just set, where that is what began it.
        fork: whether it comes from another repository.
    """

    name: str
    head: str = ""
    base: str = ""
    branch: str = ""
    labels: tuple[str, ...] = ()
    labelled: str = ""
    fork: bool = False


def read_event(environ: Mapping[str, str]) -> Event:
    """The event of the environment: GitHub's payload, or what Jenkins says of a change.

    Raises:
        MissingInputError: GitHub's payload is not there.
        BadFileError: it cannot be read.
    """
    if environ.get("GITHUB_ACTIONS") == "true":
        name = environ.get("GITHUB_EVENT_NAME", "")
        path = environ.get("GITHUB_EVENT_PATH", "")
        return event_of(name, read_payload(Path(path)) if path else {})
    if environ.get("JENKINS_URL"):
        return _jenkins(environ)
    return Event(name="local")


def event_of(name: str, payload: Mapping[str, Any]) -> Event:
    """An event out of GitHub's payload; what is not of the kind it should be counts as not said; pure."""
    if name == "pull_request":
        request = _table(payload, "pull_request")
        head, base = _table(request, "head"), _table(request, "base")
        return Event(
            name=name,
            head=_sha(head.get("sha")),
            base=_sha(base.get("sha")),
            labels=_labels(request.get("labels")),
            labelled=text_at(payload, "label", "name") if payload.get("action") == "labeled" else "",
            fork=_is_fork(_table(head, "repo"), _table(base, "repo")),
        )
    if name == "merge_group":
        group = _table(payload, "merge_group")
        return Event(name=name, head=_sha(group.get("head_sha")), base=_sha(group.get("base_sha")))
    if name == "push":
        return Event(name=name, head=_sha(payload.get("after")), base=_sha(payload.get("before")))
    return Event(name=name)


def _jenkins(environ: Mapping[str, str]) -> Event:
    """As the branch source plugin says: CHANGE_* where a pull request is built."""
    head = _sha(environ.get("GIT_COMMIT"))
    if environ.get("CHANGE_ID"):
        branch = environ.get("CHANGE_TARGET", "")
        return Event(name="pull_request", branch=branch, fork=bool(environ.get("CHANGE_FORK")))
    return Event(name="push", head=head, base=_sha(environ.get("GIT_PREVIOUS_SUCCESSFUL_COMMIT")))


def _table(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = content.get(key)
    return found if isinstance(found, dict) else {}


def _sha(value: Any) -> str:
    """A commit by its whole name; empty for none, such as the zeros of a branch that is new."""
    if not isinstance(value, str) or not _SHA.fullmatch(value) or not value.strip("0"):
        return ""
    return value


def _labels(value: Any) -> tuple[str, ...]:
    rows = value if isinstance(value, list) else []
    names = [row.get("name") for row in rows if isinstance(row, dict)]
    return tuple(name for name in names if isinstance(name, str))


def _is_fork(head: Mapping[str, Any], base: Mapping[str, Any]) -> bool:
    """Whether the repositories differ; of one that was deleted, or is not said, nobody knows whose it was."""
    mine, theirs = head.get("id"), base.get("id")
    return not isinstance(mine, int) or not isinstance(theirs, int) or mine != theirs


def event_payload(environ: Mapping[str, str], *names: str) -> Mapping[str, Any]:
    """The event's payload, where it is one of these names.

    Raises:
        UsageError: another event began this job, or none did.
        MissingInputError: the payload is not there.
        BadFileError: it cannot be read.
    """
    name, path = environ.get("GITHUB_EVENT_NAME", ""), environ.get("GITHUB_EVENT_PATH", "")
    if name not in names or not path:
        seen = f"the event is {name!r:.60}" if name else "there is no event of GitHub's"
        raise UsageError(f"{seen}, not {' or '.join(names)}", where="GITHUB_EVENT_NAME", remedy=_REMEDY)
    return read_payload(Path(path))


def read_payload(path: Path) -> Mapping[str, Any]:
    """A payload out of its file.

    Raises:
        MissingInputError: it is not there.
        BadFileError: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise MissingInputError(
            f"the event cannot be read: {error.strerror}", where=path, remedy=_REMEDY
        ) from error
    if len(data) > MAX_BYTES:
        raise BadFileError(f"the event has more than {MAX_BYTES:,} bytes", where=path, remedy=_REMEDY)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"the event is no JSON: {error}", where=path, remedy=_REMEDY) from error
    if not isinstance(content, dict):
        raise BadFileError("the event is no JSON object", where=path, remedy=_REMEDY)
    return content


def text_at(content: Any, *keys: str) -> str:
    """The text at a place; empty where there is none, or something else."""
    found = at(content, *keys)
    return found if isinstance(found, str) else ""


def number_at(content: Any, *keys: str) -> int:
    """The whole number above 0 at a place; 0 where there is none, or something else."""
    found = at(content, *keys)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0


def at(content: Any, *keys: str) -> Any:
    """What is at a place of nested objects; None where there is none."""
    for key in keys:
        content = content.get(key) if isinstance(content, dict) else None
    return content
