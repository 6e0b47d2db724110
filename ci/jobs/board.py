"""What is known of a job's pods while it runs; an event costs the same however many there are. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ci.core.errors import EXIT_TEST_FAILED, EXIT_USAGE
from ci.jobs.fate import ENDED_BADLY, Fate, Phase, fate_of, index_of
from ci.jobs.standing import Standing

UNBORN = "no pod of it was made yet"
# Its pods have ended, and another is to come: at once, or when a queue or quota has room.
NEXT = "to be replaced"
# Of these the job's failure policy makes an index that has failed for good.
_FINAL = (EXIT_TEST_FAILED, EXIT_USAGE)


@dataclass(slots=True, kw_only=True)
class _Try:
    """One of the pods of an index."""

    made: str
    fate: Fate


class Board:
    """The pods of a job, by index.

    Attributes:
        pods: how many there are to be.
        counts: indexes by phase.
        reasons: why indexes are pending, with how many for each.
        shards_done: of the pods that ran them to their ends, tests that failed among them.
        stuck: indexes whose pod is lost and still there, so that nothing replaces it.
        badly: pods that ended badly, by phase; others may have taken up what they did.
        standing: what the job's controller says.
    """

    def __init__(self, standing: Standing, now: float) -> None:
        """A board that knows of no pod yet, at `now` in monotonic seconds."""
        self.pods = standing.pods
        self.standing = standing
        self.counts: Counter[Phase] = Counter({Phase.PENDING: self.pods})
        self.reasons: Counter[str] = Counter({UNBORN: self.pods})
        self.badly: Counter[Phase] = Counter()
        self.stuck: set[int] = set()
        self.shards_done = 0
        self._tries: dict[int, dict[str, _Try]] = {}
        self._shown: dict[int, Fate] = {}
        self._stalled_at: float | None = now
        self._show_all(standing.done | standing.failed, now)

    def take(self, kind: str, pod: Mapping[str, Any], now: float) -> Fate | None:
        """One event of a watch; the pod's fate where it has just ended badly.

        Args:
            kind: ADDED, MODIFIED or DELETED.
            pod: as it is now, or was last.
            now: monotonic seconds.
        """
        about = pod.get("metadata", {})
        index, name = index_of(pod), str(about.get("uid", ""))
        if not 0 <= index < self.pods:
            return None
        tries = self._tries.setdefault(index, {})
        known = tries.get(name)
        fate = fate_of(pod)
        if kind == "DELETED" and fate.stays:
            fate = Fate(index=index, phase=Phase.LOST, why="its node is gone")
        elif kind == "DELETED" and _lives(fate):
            fate = Fate(index=index, phase=Phase.LOST, why="somebody or something deleted it")
        tries[name] = _Try(made=str(about.get("creationTimestamp", "")), fate=fate)
        self._show(index, now)
        worse = fate.phase in ENDED_BADLY and (known is None or known.fate.phase not in ENDED_BADLY)
        self.badly[fate.phase] += worse
        return fate if worse else None

    def relist(self, pods: Iterable[Mapping[str, Any]], now: float) -> list[Fate]:
        """All pods there are, after versions were missed; those not among them are gone."""
        news, seen = [], set()
        for pod in pods:
            seen.add(str(pod.get("metadata", {}).get("uid", "")))
            if (fate := self.take("MODIFIED", pod, now)) is not None:
                news.append(fate)
        for index, tries in self._tries.items():
            for name, one in tries.items():
                if name not in seen and _lives(one.fate):
                    one.fate = Fate(index=index, phase=Phase.LOST, why="it is gone")
                    self.badly[Phase.LOST] += 1
                    news.append(one.fate)
                elif name not in seen and one.fate.stays:
                    one.fate = Fate(index=index, phase=Phase.LOST, why="its node is gone")
            self._show(index, now)
        return news

    def look(self, standing: Standing, now: float) -> None:
        """What the job's controller says now; of pods that are gone it is all that tells."""
        changed = (standing.done ^ self.standing.done) | (standing.failed ^ self.standing.failed)
        turned = (standing.over is None) != (self.standing.over is None)
        self.standing = standing
        self._show_all(range(self.pods) if turned else changed, now)

    def fate(self, index: int) -> Fate:
        """What is known of an index: of its newest pod, or of the one that did its work."""
        return self._shown.get(index) or Fate(index=index, phase=Phase.PENDING, why=UNBORN)

    @property
    def settled(self) -> bool:
        """Whether no pod is pending, at work or stuck: the controller is about to say that this is all."""
        return not self.counts[Phase.PENDING] and not self.counts[Phase.RUNNING] and not self.stuck

    @property
    def quiet(self) -> bool:
        """Whether no pod is there that could tell anything; the controller has the next word."""
        awaited = self.reasons[UNBORN] + self.reasons[NEXT]
        return not self.counts[Phase.RUNNING] and self.counts[Phase.PENDING] == awaited

    def stalled_s(self, now: float) -> float:
        """For how many seconds nothing has run, while pods are pending or stuck; 0: something does."""
        return 0.0 if self._stalled_at is None else now - self._stalled_at

    def _show_all(self, indexes: Iterable[int], now: float) -> None:
        for index in indexes:
            if index < self.pods:
                self._show(index, now)

    def _show(self, index: int, now: float) -> None:
        was, is_ = self.fate(index), self._current(index)
        self._shown[index] = is_
        if was == is_:
            return
        if self.standing.shards:
            self.shards_done += self.standing.shards[index] * (_ran(is_) - _ran(was))
        self.counts[was.phase] -= 1
        self.counts[is_.phase] += 1
        if was.phase is Phase.PENDING:
            self.reasons[was.why] -= 1
            # Reasons come and go, and each kept one would be looked at for every line.
            if not self.reasons[was.why]:
                del self.reasons[was.why]
        if is_.phase is Phase.PENDING:
            self.reasons[is_.why] += 1
        (self.stuck.add if is_.stays else self.stuck.discard)(index)
        busy = self.counts[Phase.RUNNING] or not (self.counts[Phase.PENDING] or self.stuck)
        if busy:
            self._stalled_at = None
        elif self._stalled_at is None or is_.phase is Phase.DONE:
            self._stalled_at = now

    def _current(self, index: int) -> Fate:
        tries = self._tries.get(index, {}).values()
        done = next((one.fate for one in tries if one.fate.phase is Phase.DONE), None)
        if done is not None:
            return done
        if index in self.standing.done:
            return Fate(index=index, phase=Phase.DONE)
        if tries:
            _, newest = max(enumerate(tries), key=_standing_for_it)
            if _there(newest.fate) or index in self.standing.failed or self.standing.over:
                return newest.fate
            return Fate(index=index, phase=Phase.PENDING, why=NEXT)
        if index in self.standing.failed:
            return Fate(index=index, phase=Phase.FAILED, why="its pods are gone")
        return Fate(index=index, phase=Phase.PENDING, why=UNBORN)


def _ran(fate: Fate) -> bool:
    """Whether a pod ran its shards to their ends."""
    return fate.phase is Phase.DONE or fate.exit_code == EXIT_TEST_FAILED


def _lives(fate: Fate) -> bool:
    return fate.phase in {Phase.PENDING, Phase.RUNNING}


def _standing_for_it(one: tuple[int, _Try]) -> tuple[bool, bool, str, int]:
    """By what the pod is found that an index is judged by: what is still under way, then the newest."""
    order, a_try = one
    # Two may be of the same second.
    return _lives(a_try.fate), _there(a_try.fate), a_try.made, order


def _there(fate: Fate) -> bool:
    """Whether nothing replaces it as yet."""
    return _lives(fate) or fate.stays or fate.exit_code in _FINAL
