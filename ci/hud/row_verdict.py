"""What a row of `test_run` says became of its test, in our nine words; pure.

Our own JUnit says more than HUD's layout has keys for (card, tries, the cause of a failure), in the type of
an outcome and in lines `key: value` of `system-out`; a row without our id is read by its elements alone.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from ci.hud.rows import ID_PROPERTY, MESSAGE_CHARACTERS

CAUSES = frozenset({"signal", "hang", "oom", "exit"})
_OF_TYPE = {"hardware": "hardware", "infrastructure": "infrastructure", "not_run": "not_run"}
_MOST_TRIES = 1000
_KEPT_CHARACTERS = 200


class Told(NamedTuple):
    """What a row says.

    Attributes:
        test_id: the canonical id, else `file::class::name`.
        verdict: one of the nine.
        cause: of a failure: signal, hang, oom or exit; else empty.
        card: that it ran on; empty where the row does not say.
        attempts: tries, from 1.
        message: the line that says why; empty for a plain pass.
    """

    test_id: str
    verdict: str
    cause: str = ""
    card: str = ""
    attempts: int = 1
    message: str = ""


def told(row: Mapping[str, Any]) -> Told:
    """What became of a row's test."""
    named = row["properties"]["property"] if "properties" in row else {"name": ""}
    ours = named["name"] == ID_PROPERTY and bool(named["value"])
    test_id = str(named["value"]) if ours else foreign_id(row)
    outcome = row.get("failure") or row.get("error") or row.get("skipped") or row.get("rerun")
    said = row.get("system-out") if ours else None
    if outcome is None and said is None:
        return Told(test_id=test_id, verdict="passed")
    notes = _notes_of(said["text"]) if said is not None else {}
    kind, message = _first(outcome)
    verdict = _verdict(row, kind, ours=ours)
    if verdict == "passed" and notes.get("verdict") == "xpassed":
        verdict = "xpassed"
    tries = notes.get("attempts", "")
    return Told(
        test_id=test_id,
        verdict=verdict,
        cause=kind if ours and kind in CAUSES else "",
        card=notes.get("card", ""),
        attempts=min(int(tries), _MOST_TRIES) if tries.isdecimal() and len(tries) < 9 else 1,  # noqa: PLR2004
        message=message,
    )


def foreign_id(row: Mapping[str, Any]) -> str:
    """`file::class::name` of a row whose runner knows no canonical ids."""
    parts = (row["file"], row["classname"], row["name"])
    return "::".join(part for part in parts if part)


def _verdict(row: Mapping[str, Any], kind: str, *, ours: bool) -> str:
    if "failure" in row:
        return "failed"
    if "error" in row:
        return _OF_TYPE.get(kind, "failed") if ours else "failed"
    if "skipped" in row:
        return "xfailed" if kind == "pytest.xfail" else "skipped"
    return "flaky" if "rerun" in row else "passed"


def _first(outcome: Any) -> tuple[str, str]:
    """Type and message of an outcome; of several, the first's."""
    one = outcome[0] if isinstance(outcome, list) else outcome
    if one is None:
        return "", ""
    return str(one.get("type", "")), str(one["message"])[:MESSAGE_CHARACTERS]


def _notes_of(text: str) -> Mapping[str, str]:
    # Most tests of a card say the same; what is long is not kept.
    return _kept_notes(text) if len(text) <= _KEPT_CHARACTERS else _notes(text)


@functools.lru_cache(maxsize=4096)
def _kept_notes(text: str) -> Mapping[str, str]:
    return _notes(text)


def _notes(text: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(": ")
        if colon:
            found.setdefault(key, value)
    return found
