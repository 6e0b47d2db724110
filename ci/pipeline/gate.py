"""Whether a pipeline was enough: every job succeeded, or was left out because of what changed; pure.

A job that failed, was cancelled, ran out of time or is not found at all makes it red, and so does whatever
cannot be read: nothing is green that is not known to be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ci.core.errors import EXIT_TEST_FAILED, SpyreCiError, UsageError
from ci.pipeline.event import at, json_object, text_at

CHANGES = "changes"
State = Literal["ok", "skipped", "not blocking", "red"]
# docs.github.com, "Contexts", needs.<job_id>.result; a job that ran out of time has failed.
_ENDED_BADLY = {"failure": "failed, or ran out of time", "cancelled": "was cancelled"}


class GateClosedError(SpyreCiError):
    """A pipeline that was not enough."""

    exit_code = EXIT_TEST_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as the gate sees it; one that is `not blocking` did not succeed, and need not."""

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
        remedy = "set it to toJSON(needs) in a job that needs all of them"
        raise UsageError("NEEDS is not set", where="NEEDS (environment)", remedy=remedy)
    return json_object(text, "NEEDS", "NEEDS (environment)")


def judge(needs: Mapping[str, Any], expected: Sequence[str]) -> list[Job]:
    """Judge every job that is expected or is there.

    Args:
        needs: what `read_needs` gives.
        expected: jobs that must be accounted for, besides `changes`.

    Raises:
        UsageError: none is expected.
    """
    if not expected:
        raise UsageError("no job is expected", where="--expect", remedy="name them: --expect lint,unit")
    # Where `changes` did not succeed, nothing of what it said is forgiven.
    outputs = at(needs, CHANGES, "outputs") if text_at(needs, CHANGES, "result") == "success" else None
    told = outputs if isinstance(outputs, dict) else {}
    names = dict.fromkeys([CHANGES, *expected, *needs])
    return [_judged(name, needs, told, is_expected=name in expected) for name in names]


def refuse_red(jobs: Sequence[Job]) -> None:
    """Raise an error that names all that is red.

    Raises:
        GateClosedError: something is.
    """
    red = [one for one in jobs if one.state == "red"]
    if red:
        raise GateClosedError(
            f"{len(red)} of {len(jobs)} jobs keep the gate closed: "
            + ", ".join(f"{one.name} {one.why}" for one in red),
            remedy="see those jobs; the gate opens when they are run again and succeed",
        )


def _judged(name: str, needs: Mapping[str, Any], told: Mapping[str, Any], *, is_expected: bool) -> Job:
    result = text_at(needs, name, "result")
    if name not in needs:
        return Job(name=name, state="red", why="is missing from NEEDS")
    if result == "success":
        return Job(name=name, state="ok", why="succeeded")
    if result == "skipped" and told.get(name) == "false":
        return Job(name=name, state="skipped", why="was not needed for what changed")
    if result == "skipped" and told and not is_expected:
        return Job(name=name, state="skipped", why="was skipped, and is not expected")
    why = _ENDED_BADLY.get(result) or ("was skipped, but should have run" if result == "skipped" else "")
    if not why:
        return Job(name=name, state="red", why="has an unknown result")
    return Job(name=name, state="not blocking" if told.get(f"{name}_blocking") == "false" else "red", why=why)
