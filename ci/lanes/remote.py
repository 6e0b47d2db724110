"""Carry out runs of lanes far away: nothing is started twice, and results come back.

What is particular to a cluster is behind `Far`. When and where a start was asked for is noted before it is:
who comes back after a lost answer knows that. A run that brought its results back ends as these say. Without
them the far side's word counts, and a lane of tests that failed without results did not come to an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from ci.core.errors import (
    EXIT_INCOMPLETE,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_TEST_FAILED,
    EXIT_USAGE,
    MissingInputError,
    SpyreCiError,
)
from ci.lanes.order import Order, Seen, Standing
from test_selection.files import read_json, write_json

_CODES = {
    Standing.PASSED: EXIT_OK,
    Standing.FAILED: EXIT_TEST_FAILED,
    Standing.INCOMPLETE: EXIT_INCOMPLETE,
    Standing.CANCELLED: EXIT_INTERRUPTED,
    Standing.TIMED_OUT: EXIT_INCOMPLETE,
    Standing.GONE: EXIT_INCOMPLETE,
}
_STANDINGS = {EXIT_OK: Standing.PASSED, EXIT_TEST_FAILED: Standing.FAILED}
_WORST = (EXIT_USAGE, EXIT_INCOMPLETE, EXIT_TEST_FAILED)
KIND, FILE = "lane-asked", "asked.json"
BROUGHT_KIND, BROUGHT_FILE = "lane-brought", "brought.json"


class UnsettledError(SpyreCiError):
    """A start was asked for a moment ago, and may still come to light."""

    exit_code = EXIT_INCOMPLETE


class MovedError(SpyreCiError):
    """A run was started at another place than its lane has now; its old place may come back."""

    exit_code = EXIT_INCOMPLETE


class NotSubmittedError(SpyreCiError):
    """A job was not submitted, and another time will not help."""


class SubmitAwayError(SpyreCiError):
    """A job was not submitted, and another time may help."""

    exit_code = EXIT_INCOMPLETE


def ended(standing: Standing, said: str = "", url: str = "") -> Seen:
    """An end, with the exit code that its standing has by itself."""
    return Seen(standing=standing, exit_code=_CODES[standing], said=said, url=url)


def of_code(code: int, said: str = "", url: str = "") -> Seen:
    """An end by an exit code; one that says nothing of tests is taken for something missing."""
    code = _known(code)
    return Seen(standing=_STANDINGS.get(code, Standing.INCOMPLETE), exit_code=code, said=said, url=url)


def settled(seen: Seen, codes: Iterable[int], *, wants_results: bool) -> Seen:
    """An end as the results that came back have it.

    Args:
        seen: what the far side says.
        codes: exit codes of the runs that came back.
        wants_results: the lane is of tests, so that there should be some.
    """
    if seen.standing not in {Standing.PASSED, Standing.FAILED}:
        return seen  # it did not come to its end, whatever was reported until then
    known = {_known(code) for code in codes}
    code = next((one for one in _WORST if one in known), None)
    if code is not None:
        return of_code(code, seen.said or "its results say so", seen.url)
    if seen.standing is Standing.FAILED and wants_results and not known:
        return ended(Standing.INCOMPLETE, f"{seen.said}, and no results of it came back", seen.url)
    return seen


def _known(code: int) -> int:
    return code if code in {EXIT_OK, *_WORST} else EXIT_INCOMPLETE


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """What came back of a run.

    Attributes:
        codes: exit codes of the runs of tests in it, by their summaries; 3 for what cannot be used.
        runs: their folders, for the history; empty where it has them already.
        notes: why something did not come.
    """

    codes: Sequence[int] = ()
    runs: Sequence[Path] = ()
    notes: Sequence[str] = ()


class Far(Protocol):
    """A place far away; errors as `ci.lanes.order.Executor` has them."""

    settle_s: float  # seconds after which what was started is found
    place: str  # address and name, without secrets; another one has other runs

    def check(self, order: Order) -> None:
        """Refuse what could not be found again once it was started, or cannot be started at all."""

    def find(self, order: Order) -> str | None:
        """The reference of what was started for an order."""

    def start(self, order: Order) -> str:
        """Start it, whatever was started before, and give its reference."""

    def look(self, order: Order, reference: str) -> Seen:
        """Where it stands."""

    def cancel(self, order: Order, reference: str) -> None:
        """Ask for its end."""

    def bring(self, order: Order, reference: str) -> Brought:
        """Bring back what it left into the order's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """An executor far away.

    Attributes:
        far: the place.
        clock: seconds since the epoch.
        wants_results: the lane is of tests, and what comes back without results came to no answer.
        remember: writes a run that came back into the store of results: its folder, id and lane.
    """

    far: Far
    clock: Callable[[], float]
    wants_results: bool
    remember: Callable[[Path, str, str], object]

    def find(self, order: Order) -> str | None:
        """The reference of an order that was started before; see `Executor`.

        Raises:
            MovedError: it was asked for elsewhere.
            UnsettledError: it was asked for, and the place refuses to say what became of it.
            SpyreCiError: as the place has it.
        """
        check_place(order.folder, self.far.place)
        try:
            return self.far.find(order)
        except SpyreCiError as error:
            if error.exit_code == EXIT_INCOMPLETE or asked_at(order.folder) is None:
                raise
            raise UnsettledError(
                f"a start was asked for, and what became of it is not told: {error.what}",
                where=error.where, remedy=error.remedy,
            ) from error  # fmt: skip

    def start(self, order: Order) -> str:
        """Start it, if nothing of it is there; see `Executor`.

        Raises:
            MovedError: an earlier start was asked for elsewhere.
            UnsettledError: an earlier start may still come to light.
            SpyreCiError: as the place has it.
        """
        if (found := self.find(order)) is not None:
            return found
        check_settled(order.folder, self.clock(), self.far.settle_s)
        self.far.check(order)
        note_asked(order.folder, self.clock(), self.far.place)
        try:
            return self.far.start(order)
        finally:
            # An answer takes its time, and it may have been taken in the last moment.
            note_asked(order.folder, self.clock(), self.far.place)

    def look(self, order: Order, reference: str) -> Seen:
        """Where it stands; an end as its results have it, once they came back; see `Executor`."""
        check_place(order.folder, self.far.place)
        seen = self.far.look(order, reference)
        if not seen.standing.ended or seen.standing is Standing.GONE:
            return seen
        try:
            codes, notes = self._brought(order, reference)
        except SpyreCiError:  # `fetch` says it, and is asked for again
            codes, notes = [], []
        seen = settled(seen, codes, wants_results=self.wants_results)
        return replace(seen, said="; ".join(one for one in (seen.said, *notes) if one))

    def cancel(self, order: Order, reference: str) -> None:
        """Ask for its end; see `Executor`."""
        check_place(order.folder, self.far.place)
        self.far.cancel(order, reference)

    def fetch(self, order: Order, reference: str) -> None:
        """Bring back what it left, once; see `Executor`."""
        check_place(order.folder, self.far.place)
        self._brought(order, reference)

    def _brought(self, order: Order, reference: str) -> tuple[list[int], list[str]]:
        """Exit codes and notes of what came back, brought unless it was before."""
        note = order.folder / BROUGHT_FILE
        if note.is_file():
            told = read_json(note, BROUGHT_KIND)
            return list(told["codes"]), list(told["notes"])
        brought = self.far.bring(order, reference)
        notes = list(brought.notes)
        for number, run in enumerate(brought.runs):
            # Not by what it calls itself: many jobs have a run of that number, and one run several results.
            known_as = f"{order.id}/{number}"
            try:
                self.remember(run, known_as, order.lane)
            except SpyreCiError as error:  # it reddens nothing, and the folder keeps it
                notes.append(f"not in the history, which `spyre-ci history import {run}` mends: {error.what}")
        content = {"codes": list(brought.codes), "runs": [str(run) for run in brought.runs], "notes": notes}
        write_json(note, BROUGHT_KIND, content)
        return list(brought.codes), notes
