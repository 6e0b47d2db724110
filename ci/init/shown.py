"""A proposal in words, as differences and as JSON; pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from ci.init.decide import Change, Status
from ci.init.noted import FILE
from ci.init.proposal import Proposal
from test_selection.files import json_text, schema_name

KIND = "init"
# A word and what is to be done, by what becomes of a file.
WORDS = {
    Status.CREATED: "new",
    Status.UNCHANGED: "as it is to be",
    Status.UPDATED: "renewed: nobody changed it",
    Status.MERGED: "merged: your changes stay, and what is new comes in",
    Status.KEPT: "left alone",
    Status.CONFLICT: "in conflict",
}


def difference(change: Change) -> str:
    """What a file would be, as a unified difference; of a conflict with the merge's marks."""
    if change.text is None or change.status is Status.UNCHANGED:
        return ""
    before = _lines(change.seen.text or "")
    name = "/dev/null" if change.seen.text is None else f"a/{change.path}"
    return "".join(difflib.unified_diff(before, _lines(change.text), name, f"b/{change.path}"))


def _lines(text: str) -> list[str]:
    """Lines with their ends; one without is marked as `diff` marks it."""
    lines = text.split("\n")
    whole = [f"{line}\n" for line in lines[:-1]]
    return whole + ([f"{lines[-1]}\n\\ No newline at end of file\n"] if lines[-1] else [])


def differences(changes: Sequence[Change]) -> Iterator[str]:
    """The differences of files that people read: notes are none of these."""
    for change in changes:
        if change.path != FILE and (text := difference(change)):
            yield text


def lines(proposal: Proposal) -> Iterator[str]:
    """What becomes of each file, a line each; those that are right are counted."""
    right = [one for one in proposal.changes if one.status is Status.UNCHANGED]
    for change in proposal.changes:
        if change.status is not Status.UNCHANGED:
            why = f" ({change.why})" if change.why else ""
            yield f"{change.status:<9} {change.path}: {WORDS[change.status]}{why}"
    if right:
        yield f"{Status.UNCHANGED:<9} {len(right)} of {len(proposal.changes)} files are as they are to be"


def remedies(proposal: Proposal) -> Iterator[str]:
    """What people do about conflicts."""
    for change in proposal.conflicts:
        if change.text is None:
            yield f"{change.path}: {change.why}; move it aside, or leave it with --keep {change.path}"
        else:
            yield (
                f"{change.path}: {change.why}; put in of the difference what you want, then "
                f"`spyre-ci init --write --keep {change.path}`"
            )


def document(proposal: Proposal, *, written: bool, code: int) -> str:
    """The proposal for machines: one line of JSON."""
    toolkit, place = proposal.toolkit, proposal.place
    content = {
        "schema": schema_name(KIND),
        "written": written,
        "exit_code": code,
        "device": proposal.back_end.device,
        "package": proposal.back_end.package,
        "project": proposal.back_end.project,
        "branch": place.branch,
        "repository": place.repository,
        "toolkit": {"repository": toolkit.repository, "ref": toolkit.ref, "version": toolkit.version},
        "notes": list(proposal.notes),
        "files": [
            {"path": one.path, "status": one.status, "why": one.why, "difference": _shown(one)}
            for one in proposal.changes
        ],
    }
    return json_text(content)


def _shown(change: Change) -> str:
    return "" if change.path == FILE else difference(change)
