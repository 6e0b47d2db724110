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

SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# GitHub sends no payload above 25 MB.
MAX_BYTES = 32 << 20
_REMEDY = "run this in the job that the event started"


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
        by_base: whether it is judged by the settings of what it goes onto. Not so a pull request on GitHub,
            whose workflow is its own as well.
    """

    name: str
    head: str = ""
    base: str = ""
    branch: str = ""
    labels: tuple[str, ...] = ()
    labelled: str = ""
    fork: bool = False
    by_base: bool = False


def read_event(environ: Mapping[str, str]) -> Event:
    """The event of the environment: GitHub's payload, or what Jenkins' branch source says of a change.

    Raises:
        MissingInputError: GitHub's payload is not found.
        BadFileError: it cannot be read.
    """
    if environ.get("GITHUB_ACTIONS") == "true":
        path = environ.get("GITHUB_EVENT_PATH", "")
        return event_of(environ.get("GITHUB_EVENT_NAME", ""), read_payload(Path(path)) if path else {})
    if not environ.get("JENKINS_URL"):
        return Event(name="local")
    if environ.get("CHANGE_ID"):
        branch, fork = environ.get("CHANGE_TARGET", ""), bool(environ.get("CHANGE_FORK"))
        return Event(name="pull_request", branch=branch, fork=fork, by_base=True)
    base = environ.get("GIT_PREVIOUS_SUCCESSFUL_COMMIT")
    return Event(name="push", head=_sha(environ.get("GIT_COMMIT")), base=_sha(base))


def event_of(name: str, payload: Mapping[str, Any]) -> Event:
    """An event out of GitHub's payload; what is not of the kind it should be counts as not said; pure."""
    if name == "pull_request":
        head, base = at(payload, name, "head"), at(payload, name, "base")
        labels = at(payload, name, "labels")
        names = (text_at(row, "name") for row in (labels if isinstance(labels, list) else []))
        # Of a repository that was deleted, or is not said, nobody knows whose it was.
        mine, theirs = number_at(head, "repo", "id"), number_at(base, "repo", "id")
        return Event(
            name=name,
            head=_sha(at(head, "sha")),
            base=_sha(at(base, "sha")),
            labels=tuple(filter(None, names)),
            labelled=text_at(payload, "label", "name") if payload.get("action") == "labeled" else "",
            fork=not mine or mine != theirs,
        )
    if name == "merge_group":
        head, base = at(payload, name, "head_sha"), at(payload, name, "base_sha")
        return Event(name=name, head=_sha(head), base=_sha(base), by_base=True)
    if name == "push":
        return Event(name=name, head=_sha(payload.get("after")), base=_sha(payload.get("before")))
    return Event(name=name)


def _sha(value: Any) -> str:
    """A commit by its whole name; empty for none, such as the zeros of a branch that is new."""
    return value if isinstance(value, str) and SHA.fullmatch(value) and value.strip("0") else ""


def event_payload(environ: Mapping[str, str], name: str) -> Mapping[str, Any]:
    """The event's payload, where it is of this name.

    Raises:
        UsageError: another event began this job, or none did.
        MissingInputError: the payload is not found.
        BadFileError: it cannot be read.
    """
    seen, path = environ.get("GITHUB_EVENT_NAME", ""), environ.get("GITHUB_EVENT_PATH", "")
    if seen != name:
        said = f"the event is {seen!r:.60}" if seen else "there is no GitHub event"
        raise UsageError(f"{said}, and a {name} event is needed", where="GITHUB_EVENT_NAME", remedy=_REMEDY)
    if not path:
        raise UsageError("the path of the event's file is not set", where="GITHUB_EVENT_PATH", remedy=_REMEDY)
    return read_payload(Path(path))


def read_payload(path: Path) -> Mapping[str, Any]:
    """A payload out of its file.

    Raises:
        MissingInputError: it is not found.
        BadFileError: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        said = f"the event cannot be read: {error.strerror}"
        raise MissingInputError(said, where=path, remedy=_REMEDY) from error
    if len(data) > MAX_BYTES:
        raise BadFileError(f"the event has more than {MAX_BYTES:,} bytes", where=path, remedy=_REMEDY)
    return json_object(data, "the event", path)


def json_object(data: str | bytes, what: str, where: Path | str) -> dict[str, Any]:
    """A JSON object, whose keys stand once each.

    Raises:
        BadFileError: it is none.
    """
    try:
        content = json.loads(data, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"{what} is not valid JSON: {error}", where=where, remedy=_REMEDY) from error
    if not isinstance(content, dict):
        raise BadFileError(f"{what} is not a JSON object", where=where, remedy=_REMEDY)
    return content


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key occurs twice")
    return content


def at(content: Any, *keys: str) -> Any:
    """What is at a place of nested objects; None where there is none."""
    for key in keys:
        content = content.get(key) if isinstance(content, dict) else None
    return content


def text_at(content: Any, *keys: str) -> str:
    """The text at a place; empty where there is none, or something else."""
    found = at(content, *keys)
    return found if isinstance(found, str) else ""


def number_at(content: Any, *keys: str) -> int:
    """The whole number above 0 at a place; 0 where there is none, or something else."""
    found = at(content, *keys)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0
