"""When and where a start was asked for, noted before it is: who comes back after a lost answer knows that."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci.core.errors import MissingInputError
from ci.lanes.remote_errors import MovedError, UnsettledError
from test_selection.files import read_json, write_json

KIND, FILE = "lane-asked", "asked.json"


def note_asked(folder: Path, now: float, place: str) -> None:
    """Note that a start is asked for now, in seconds since the epoch, and where."""
    write_json(folder / FILE, KIND, {"at": now, "place": place})


def check_place(folder: Path, place: str) -> None:
    """Refuse to ask for a run where it was not started: another one may have its number there.

    Args:
        folder: of the attempt.
        place: where the settings have it now.

    Raises:
        MovedError: it was started elsewhere.
    """
    before = _noted(folder).get("place")
    if isinstance(before, str) and before != place:
        raise MovedError(
            f"it was started at {before}, and its lane is at another place now: {place}",
            where=folder.name,
            remedy="give the lane its old place until its run ended; it is not begun anew beside it",
        )


def asked_at(folder: Path) -> float | None:
    """When a start was asked for; None where none was, as far as is known here.

    Raises:
        BadFileError: the note is none.
    """
    at = _noted(folder).get("at")
    return float(at) if isinstance(at, int | float) else None


def check_settled(folder: Path, now: float, settle_s: float) -> None:
    """Refuse to start again so soon after a start that nobody has seen: its run may not be listed yet.

    Args:
        folder: of the attempt.
        now: seconds since the epoch.
        settle_s: seconds after which a run that was made is listed.

    Raises:
        UnsettledError: it is too soon.
    """
    at = asked_at(folder)
    # By the distance, so that a clock that was set back does not make it wait for ever.
    if at is not None and abs(now - at) < settle_s:
        raise UnsettledError(
            f"a start was asked for {abs(now - at):.0f} s ago, and what became of it is not seen yet",
            where=folder.name,
            remedy=f"after {settle_s:g} s it is started again, if nothing of it is there",
        )


def _noted(folder: Path) -> Mapping[str, Any]:
    """What was noted; empty where nothing was."""
    try:
        return read_json(folder / FILE, KIND)
    except MissingInputError:
        return {}
