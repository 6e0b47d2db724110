"""Whether a pipeline was enough: every job succeeded, or was left out because of what changed; pure.

A job that failed, was cancelled, ran out of time or is not there at all makes it red, and so does whatever
cannot be read: nothing is green that is not known to be.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ci.core.errors import EXIT_TEST_FAILED, BadFileError, SpyreCiError, UsageError

CHANGES = "changes"
State = Literal["ok", "left out", "told", "red"]
# docs.github.com, "Contexts", needs.<job_id>.result; a job that ran out of time has failed.
_ENDED_BADLY = {"failure": "failed, or ran out of time", "cancelled": "was cancelled"}
_REMEDY = "give it toJSON(needs) of a job that needs all of them"


class GateClosedError(SpyreCiError):
    """A pipeline that was not enough."""

    exit_code = EXIT_TEST_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as the gate sees it.

    Attributes:
        name: of it.
        state: ok; left out, because of what changed; told: not well, but it does not block; red.
        why: in a few words.
    """

    name: str
    state: State
    why: str


def read_needs(text: str) -> dict[str, Any]:
    """GitHub's `toJSON(needs)`.

    Raises:
        UsageError: there is none.
        BadFileError: it is no JSON object, or says a thing twice.
    """
    if not text.strip():
        raise UsageError("NEEDS is not set", where="NEEDS (environment)", remedy=_REMEDY)
    try:
        content = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"is no JSON: {error}", where="NEEDS (environment)", remedy=_REMEDY) from error
    if not isinstance(content, dict):
        raise BadFileError("is no JSON object", where="NEEDS (environment)", remedy=_REMEDY)
    return content


def judge(needs: Mapping[str, Any], expected: Sequence[str]) -> list[Job]:
    """Every job that is expected or is there, judged.

    Args:
        needs: what `read_needs` gives.
        expected: jobs that must be accounted for, besides `changes`.

    Raises:
        UsageError: none is expected.
    """
    if not expected:
        raise UsageError("no job is expected", where="--expect", remedy="name them: --expect lint,unit")
    told = _outputs(needs)
    names = dict.fromkeys([CHANGES, *expected, *needs])
    return [_judged(name, needs, told, is_expected=name in expected) for name in names]


def refuse_red(jobs: Sequence[Job]) -> None:
    """Raise an error that names all that is red.

    Raises:
        GateClosedError: something is.
    """
    red = [one for one in jobs if one.state == "red"]
    if red or not jobs:
        names = ", ".join(f"{one.name} {one.why}" for one in red)
        raise GateClosedError(
            f"{len(red)} of {len(jobs)} jobs keep the gate closed: {names}",
            remedy="see those jobs; the gate opens when they are run again and succeed",
        )


def _judged(name: str, needs: Mapping[str, Any], told: Mapping[str, str], *, is_expected: bool) -> Job:
    row = needs.get(name)
    result = row.get("result") if isinstance(row, dict) else None
    if name not in needs:
        return Job(name=name, state="red", why="is not there")
    if result == "success":
        return Job(name=name, state="ok", why="succeeded")
    if result == "skipped":
        if told.get(name) == "false":
            return Job(name=name, state="left out", why="was left out by what changed")
        if told and not is_expected:
            return Job(name=name, state="left out", why="was skipped, and is not expected")
        why = "was skipped, though it was to run"
    elif isinstance(result, str) and result in _ENDED_BADLY:
        why = _ENDED_BADLY[result]
    else:
        return Job(name=name, state="red", why="has no result that is known")
    blocks = told.get(f"{name}_blocking") != "false"
    return Job(name=name, state="red" if blocks else "told", why=why)


def _outputs(needs: Mapping[str, Any]) -> dict[str, str]:
    """What `changes` said; nothing where it did not succeed, so that nothing of it is forgiven then."""
    row = needs.get(CHANGES)
    if not isinstance(row, dict) or row.get("result") != "success":
        return {}
    outputs = row.get("outputs")
    return (
        {key: value for key, value in outputs.items() if isinstance(value, str)}
        if isinstance(outputs, dict)
        else {}
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key is there twice")
    return content
