"""What a search came to, as it is kept, told and put into an issue; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ci.bisect.asking import Finding
from ci.bisect.commits import About
from ci.bisect.record import Record

# What PyTorch's merge bot writes, and what GitHub puts behind a subject.
_RESOLVED = re.compile(
    r"^Pull Request resolved: "
    r"(https://github\.com/[A-Za-z0-9-]{1,39}/(?!\.)[A-Za-z0-9_.-]{1,100}/pull/([1-9][0-9]{0,9}))\s*$",
    re.MULTILINE,
)
_NUMBER = re.compile(r"\(#([1-9][0-9]{0,9})\)\s*$")
WORDS = {
    "found": "this commit broke the test",
    "range": "one of these commits broke the test",
    "never": "the test is not broken at the bad end",
    "before": "the test was broken before the good end",
}


def pull_request(subject: str, body: str) -> tuple[int | None, str]:
    """Number and address of a commit's pull request; empty where no address is told.

    The last trailer of the merge bot wins, as a message may quote others'; else what ends the subject.
    """
    told = list(_RESOLVED.finditer(body))
    if told:
        return int(told[-1][2]), told[-1][1]
    number = _NUMBER.search(subject)
    return (int(number[1]), "") if number else (None, "")


def result_of(record: Record, found: Finding, *, confidence: float, about: Sequence[About]) -> dict[str, Any]:
    """The result as the record keeps it.

    Args:
        record: of the search.
        found: what it came to.
        confidence: what was asked for.
        about: of the candidates, the first ones at least.
    """
    candidates = []
    for one in about:
        number, url = pull_request(one.subject, one.body)
        candidates.append(
            {
                "sha": one.sha,
                "authored": one.authored,
                "subject": one.subject,
                "pull_request": number,
                "pull_request_url": url,
            }
        )
    inside = found.kind in {"found", "range"}
    belief = record.belief()
    return {
        "kind": found.kind,
        "words": WORDS[found.kind],
        "sure": found.sure,
        "confidence": confidence,
        "probability": found.probability,
        "first": found.first if inside else None,
        "last": found.last if inside else None,
        "count": found.last - found.first + 1 if inside else 0,
        "candidates": candidates,
        "runners_up": [
            {"sha": record.commits[position], "position": position, "probability": chance}
            for position, chance in found.runners_up
        ],
        "bad_rate": belief.bad_rate,
        "good_rate": belief.good_rate,
        "rounds": len(record.rounds),
        "steps": record.steps,
        "tries": len(record.tries),
        "evidence": [
            {"position": position, "sha": record.commits[position], **asdict(record.seen(position))}
            for position in sorted({one.position for one in record.tries})
        ],
    }
