"""What all executors far away have in common: nothing is started twice, and results come back.

What is particular to a Jenkins, GitHub or a cluster is behind `Far`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ci.core.errors import EXIT_INCOMPLETE, SpyreCiError
from ci.lanes.asked import asked_at, check_place, check_settled, note_asked
from ci.lanes.ends import settled
from ci.lanes.order import Order, Seen, Standing
from ci.lanes.remote_errors import UnsettledError
from ci.report.history_runs import import_run
from test_selection.files import read_json, write_json

BROUGHT_KIND, BROUGHT_FILE = "lane-brought", "brought.json"


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
        history: store of past runs, which gets what came back.
    """

    far: Far
    clock: Callable[[], float]
    wants_results: bool
    history: Path

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
                import_run(self.history, run, now=self.clock(), run=known_as, lane=order.lane)
            except SpyreCiError as error:  # it reddens nothing, and the folder keeps it
                notes.append(f"not in the history, which `spyre-ci history import {run}` mends: {error.what}")
        content = {"codes": list(brought.codes), "runs": [str(run) for run in brought.runs], "notes": notes}
        write_json(note, BROUGHT_KIND, content)
        return list(brought.codes), notes
