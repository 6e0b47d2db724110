"""Whether a merge queue's run may take a pull request's results: only where nothing is doubtful; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ci.pipeline.payload import text_at
from ci.pipeline.runs import Run

# As GitHub names the branches of a merge queue, the pull request's number among the rest.
_QUEUE = re.compile(r"refs/heads/gh-readonly-queue/.+/pr-([0-9]{1,10})-[0-9a-f]{40}")
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_WORDS = {
    "tree": "tested another tree",
    "image": "ran in another image",
    "tests": "planned other tests",
    "torch": "had another PyTorch",
    "back_end": "had another back end",
    "settings": "was set otherwise",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What a merge queue is about to merge.

    Attributes:
        head: the commit that is tested.
        base: the one it goes on top of.
        number: the pull request that was added last.
    """

    head: str
    base: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a run has to have been of.

    Attributes:
        sha: the pull request's newest commit.
        workflow: the workflow's file.
        tree: of the group's commit.
        parts: of the plan's identity, by name.
    """

    sha: str
    workflow: str
    tree: str
    parts: Mapping[str, str]


def group_of(payload: Mapping[str, Any]) -> Group | None:
    """The group of a merge_group event; None where it does not say all that is needed."""
    head, base = text_at(payload, "merge_group", "head_sha"), text_at(payload, "merge_group", "base_sha")
    found = _QUEUE.fullmatch(text_at(payload, "merge_group", "head_ref"))
    if found is None or not _SHA.fullmatch(head) or not _SHA.fullmatch(base):
        return None
    return Group(head=head, base=base, number=int(found[1]))


def workflow_file(ref: str, repository: str) -> str:
    """The workflow's file out of GITHUB_WORKFLOW_REF, `owner/name/path@ref`; empty where it is elsewhere."""
    path = ref.partition("@")[0]
    mine = f"{repository}/".lower()
    return path[len(mine) :] if path.lower().startswith(mine) else ""


def own_doubt(wanted: Wanted, merged: str) -> str:
    """Why this run can take nobody's results; empty where it may look for some.

    Args:
        wanted: what the results have to be of.
        merged: the tree that merging the pull request's commit into the group's base gives.
    """
    if not wanted.workflow:
        return "the workflow's file is not one of this repository"
    unknown = sorted(name for name, value in wanted.parts.items() if not value)
    if unknown or not set(_WORDS) <= set(wanted.parts):
        missing = unknown or sorted(set(_WORDS) - set(wanted.parts))
        return f"the plan does not know its own {', '.join(missing)}"
    if wanted.parts["tree"] != wanted.tree:
        return "the plan is of another tree than the merge queue's commit"
    if merged != wanted.tree:
        return "merging the pull request's newest commit gives another tree: the group holds more, or less"
    return ""


def doubt(run: Run, wanted: Wanted) -> str:
    """Why a run's results are not looked at; empty where they are."""
    if run.event != "pull_request":
        return f"began by {run.event}, not by a pull request"
    if run.path != wanted.workflow:
        return f"is of another workflow, {run.path}"
    if run.sha != wanted.sha:
        return "is of another commit"
    if not run.ended:
        return "has not ended"
    if run.conclusion != "success":
        return f"ended as {run.conclusion or 'nobody knows what'}"
    return ""


def doubt_of_parts(parts: Any, wanted: Wanted) -> str:
    """Why a run was not the same work, by what its plan says of itself; empty where it was."""
    if not isinstance(parts, dict):
        return "does not say what it was of"
    different = [words for name, words in _WORDS.items() if parts.get(name) != wanted.parts.get(name)]
    if different:
        return ", ".join(different)
    # Parts that a later version adds are compared as well.
    return "" if dict(parts) == dict(wanted.parts) else "says other things of itself"
