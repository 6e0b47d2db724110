"""Lanes played through weeks in a moment: the clock is the play's own, and so is how runs end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ci.config.model import SettingsModel
from ci.lanes.turn import Begin, Skip
from tests.lane_store import Store

# A worker looks every few seconds; this is often enough to see that a time came while a run was on.
_POLL_S = 900


@dataclass(frozen=True, slots=True)
class End:
    """How an attempt ends: after how many seconds, and whether it told what was asked."""

    after_s: float
    answered: bool = True


@dataclass(kw_only=True)
class Play:
    """What a worker does, and when, that also looks at the very moments it was told to look at.

    Attributes:
        settings: whose lanes are played.
        usual: how long an attempt takes, in seconds, by lane.
        unusual: which attempts end otherwise, by lane, time and number.
        begun: every attempt with the moment it began.
        skipped: every time that was skipped.
    """

    settings: SettingsModel
    usual: Mapping[str, float]
    unusual: Mapping[tuple[str, str, int], End] = field(default_factory=dict)
    begun: list[tuple[float, Begin]] = field(default_factory=list)
    skipped: list[Skip] = field(default_factory=list)

    def __post_init__(self) -> None:
        worker = self.settings.lane_worker
        self.zone = worker.zone
        self._ends: dict[str, tuple[float, bool]] = {}
        self._store = Store(
            lanes=self.settings.lanes,
            stage=self.settings.stage,
            at_once=worker.at_once,
            zone=worker.zone,
            late_s=worker.late_s,
        )

    def seconds(self, lane: str) -> list[float]:
        """When each attempt of a lane began, since the epoch."""
        return [at for at, one in self.begun if one.lane == lane]

    def times(self, lane: str) -> list[str]:
        """The same as clocks of the zone show it."""
        return [self.said(at) for at in self.seconds(lane)]

    def said(self, at: float) -> str:
        """A moment in the zone, to the second where that is not 0."""
        moment = datetime.fromtimestamp(at, tz=self.zone)
        return f"{moment:%Y-%m-%d %H:%M:%S}".removesuffix(":00")

    def between(self, start: datetime, end: datetime) -> None:
        """Play from one moment to another; what runs at the end has not ended."""
        now, last = start.timestamp(), end.timestamp()
        while now < last:
            self._end(now)
            turn = self._store.turn(now)
            self.skipped += turn.skip
            for one in turn.begin:
                self.begun.append((now, one))
                how = self.unusual.get((one.lane, self.said(one.due), one.attempt))
                how = how or End(self.usual[one.lane])
                self._ends[one.lane] = (now + how.after_s, how.answered)
            coming = [at for at, _ in self._ends.values()]
            coming += [] if turn.look_at is None else [turn.look_at]
            # What was begun is looked at once more: only then it is known when its lane is due again.
            later = now if turn.begin else min([*coming, now + _POLL_S])
            assert turn.begin or later > now, "the clock stands still"
            now = later

    def _end(self, now: float) -> None:
        for lane, (at, answered) in list(self._ends.items()):
            if at <= now:
                del self._ends[lane]
                self._store.end(lane, at, answered=answered)
