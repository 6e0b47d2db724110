"""What a row of `test_run` says became of its test, in our nine words; pure.

Our own JUnit says more than HUD's layout has keys for (card, tries, the cause of a failure), in the type of
an outcome and in lines `key: value` of `system-out`; a row without our id is read by its elements alone.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import UNSET

from ci.hud.row_layout import Outcomes, Property, TestRun
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


def told(row: TestRun) -> Told:
    """What became of a row's test."""
    named = row.properties.property if row.properties is not UNSET else UNSET
    # Others write a property of that name too, which need not tell one test from another.
    ours = isinstance(named, Property) and named.name == ID_PROPERTY and "::" in named.value
    test_id = named.value if ours and isinstance(named, Property) else foreign_id(row)
    notes = _notes_of(row.system_out.text) if ours and row.system_out is not UNSET else {}
    kind, message = _first(row)
    verdict = _verdict(row, kind, ours=ours)
    if verdict == "passed" and notes.get("verdict") == "xpassed":
        verdict = "xpassed"
    tries = notes.get("attempts", "1")
    return Told(
        test_id,
        verdict,
        kind if ours and kind in CAUSES else "",
        notes.get("card", ""),
        min(int(tries), _MOST_TRIES) if tries.isdecimal() and len(tries) < 9 else 1,  # noqa: PLR2004
        message,
    )


def foreign_id(row: TestRun) -> str:
    """`file::class::name` of a row whose runner knows no canonical ids."""
    return "::".join(part for part in (row.file, row.classname, row.name) if part)


def _verdict(row: TestRun, kind: str, *, ours: bool) -> str:
    if row.failure is not UNSET:
        return "failed"
    if row.error is not UNSET:
        return _OF_TYPE.get(kind, "failed") if ours else "failed"
    if row.skipped is not UNSET:
        return "xfailed" if kind == "pytest.xfail" else "skipped"
    return "flaky" if row.rerun is not UNSET else "passed"


def _first(row: TestRun) -> tuple[str, str]:
    """Type and message of the outcome that counts; of several, the first's."""
    outcome: Outcomes = row.failure or row.error or row.skipped or row.rerun
    one = outcome[0] if isinstance(outcome, list) else outcome
    return ("", "") if one is UNSET else (one.type or "", one.message[:MESSAGE_CHARACTERS])


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
