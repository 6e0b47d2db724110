"""What a server does by itself: sweeping silent jobs, cleaning up uploads that were cut off, pruning.

Deciding what is due takes the time as an argument; the thread only waits and asks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from ci.core.progress import ticking
from ci.hud.server.database import StoreUnavailableError
from ci.hud.server.keep import DAY_S, give_back, prune, sweep
from ci.hud.server.row_store import RowStore
from ci.hud.server.store import Store
from ci.hud.server.uploads import Uploads

STOP_S = 30.0


@dataclass(kw_only=True)
class Chores:
    """The chores of one store.

    Attributes:
        store: it.
        rows: keeps its rows of tests.
        warn: takes lines for people.
        sweep_every_s: seconds between two sweeps.
        keep_days: after which a job is pruned, once a day.
        strict: whether the sweep is upstream's.
    """

    store: Store
    rows: RowStore
    warn: Callable[[str], None]
    sweep_every_s: float
    keep_days: int
    strict: bool = False
    _done: dict[str, float] = field(default_factory=dict)

    def tick(self, at: float) -> None:
        """Do what is due; a chore that fails is said and comes again with the next tick."""
        self._do("sweep", self.sweep_every_s, at, self._sweep)
        self._do("prune", DAY_S, at, self._prune)

    def prune_daily(self, at: float) -> None:
        """Prune where the store says nobody did for a day; for who has no thread for chores."""
        if self._is_prune_due(at):
            self._do("prune", DAY_S, at, self._prune)

    def _is_prune_due(self, at: float) -> bool:
        try:
            with self.store.transaction() as connection:
                done = connection.execute("SELECT at FROM chore WHERE name = 'prune'").fetchone()
                # A clock that was ahead once must not keep everything until then.
                if done is not None and 0 <= at - done[0] < DAY_S:
                    return False
                # Before it is done, or whoever comes meanwhile does it as well.
                connection.execute("INSERT OR REPLACE INTO chore VALUES ('prune', ?)", (at,))
        except sqlite3.Error as error:
            self.warn(f"HUD store: prune failed and is tried again: {error}")
            return False
        return True

    def _do(self, name: str, every_s: float, at: float, work: Callable[[float], None]) -> None:
        if at - self._done.get(name, float("-inf")) < every_s:
            return
        try:
            work(at)
        except (sqlite3.Error, StoreUnavailableError) as error:
            self.warn(f"HUD store: {name} failed and is tried again: {error}")
        else:
            self._done[name] = at

    def _sweep(self, at: float) -> None:
        ended = sweep(self.store, at=at, strict=self.strict)
        if ended:
            self.warn(f"HUD store: {ended} jobs were silent for 6 hours and count as timed out")

    def _prune(self, at: float) -> None:
        Uploads(self.store, self.rows).clean(at=at)
        gone = prune(self.store, self.rows, before=at - self.keep_days * DAY_S, at=at)
        if gone.jobs or gone.uploads:
            give_back(self.store)
            self.warn(f"HUD store: {gone.jobs} jobs older than {self.keep_days} days were pruned")


def doing(chores: Chores, *, clock: Callable[[], float]) -> AbstractContextManager[None]:
    """Do the chores beside a server: at the start, then as often as they are due."""
    return ticking(
        lambda: chores.tick(clock()), chores.sweep_every_s, at_once=True, name="hud-chores", stop_s=STOP_S
    )
