"""The cards a run may use: leased as they come free, out of it once they are sick.

The supervisor takes cards here, gives them back, and tells of their faults; nobody else does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from ci.core.errors import BadFileError, FileSystemError, SpyreCiError
from ci.runner.health import Health, HealthFiles, Rules, strike, struck
from ci.runner.inventory import Card
from ci.runner.leases import Leases
from ci.runner.wait_queue import Ticket, WaitQueue

# A line on who is waited for is said anew after so many seconds, so that a log shows life.
SAY_EVERY_S = 60.0
# How often it is looked whether leases are still there, in seconds.
KEEP_S = 1.0
_SHOWN = 4
NO_CARD_LEFT = "no card was left to run it"


class CardPool:
    """Cards of this host.

    Attributes:
        size: how many cards the run may have at once.
    """

    def __init__(
        self,
        cards: Sequence[Card],
        *,
        wanted: int | None = None,
        leases: Leases | None = None,
        health: HealthFiles | None = None,
        rules: Rules | None = None,
        run: str = "",
        clock: Callable[[], float] = lambda: 0.0,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Look at the cards.

        Args:
            cards: all there are, in the order of preference.
            wanted: how many the run may have at once; None: all.
            leases: of this host; None where nobody else can have the cards.
            health: what earlier runs found; None where nothing is kept.
            rules: when a card is benched where nothing is kept.
            run: the run id, noted with strikes.
            clock: seconds since the epoch.
            say: tells people.
        """
        self._cards = list(cards)
        self.size = min(len(cards), len(cards) if wanted is None else wanted)
        self._leases, self._health = leases, health
        self._rules = health.rules if health is not None else rules or Rules()
        self._run, self._clock, self._say = run, clock, say
        self._queue = None if leases is None else WaitQueue(leases.folder, run=run, clock=clock)
        self._held: set[str] = set()
        self._out: dict[str, str] = {}
        self._strikes: dict[str, int] = {}
        self._well: set[str] = set()
        self._unreadable: set[str] = set()
        self._told_at: float | None = None
        self._kept_at: float | None = None
        # The cards whose leases could not be taken when they were last asked for, with the reason.
        self._refused: dict[str, FileSystemError] = {}
        self._said: set[str] = set()

    def take(self, most: int, *, least: int = 1, avoid: Collection[str] = ()) -> list[Card]:
        """Cards that are free now: as many as there are up to `most`, or none if fewer than `least`.

        None of them is called as one to `avoid`.

        Nobody holds a part of what it needs while it waits for the rest: two runs would wait for each other.
        Who does not get the least it needs is before all runs that ask later.

        A card whose lease cannot be taken is not free now; `trouble` says why.
        """
        taken: list[Card] = []
        self._refused.clear()
        barred = self._ahead()
        for card in self._cards:
            if len(self._held) >= self.size or len(taken) >= most:
                break
            if card.name not in barred and self._wanted(card, avoid) and self._take(card):
                taken.append(card)
        if self._held and (refused := self.trouble) is not None:  # where nothing works, it is the run's end
            self._say_once(refused.what, f"no more cards for now: {refused.where}: {refused.what}")
        if len(taken) >= least:
            self._wait_no_more()
            return taken
        for card in taken:
            self.release(card)
        self._wait(least, avoid)
        return []

    def _wanted(self, card: Card, avoid: Collection[str] = ()) -> bool:
        return card.name not in self._held and card.name not in self._out and card.name not in avoid

    def _ahead(self) -> Mapping[str, Ticket]:
        return {} if self._queue is None else self._queue.ahead()

    def _wait(self, least: int, avoid: Collection[str]) -> None:
        wanted = [card.name for card in self._cards if self._wanted(card, avoid)]
        if len(wanted) < least or len(self._held) + least > self.size:
            self._wait_no_more()  # no other run has what it lacks
        elif self._queue is not None:
            self._queue.wait(wanted, least)

    def _wait_no_more(self) -> None:
        if self._queue is not None:
            self._queue.drop()

    def _take(self, card: Card) -> bool:
        # Benched cards are not even leased; what a lease brought is looked at once more under the lock.
        if self._benched(card) or not self._lease(card):
            return False
        self._held.add(card.name)
        if self._benched(card):
            self.release(card)
            return False
        return True

    def _lease(self, card: Card) -> bool:
        if self._leases is None:
            return True
        try:
            return self._leases.take(card.name)
        except FileSystemError as error:
            self._refused[card.name] = error
            return False

    @property
    def trouble(self) -> FileSystemError | None:
        """Why the lease of a card could not be taken when one was last asked for; None where all could."""
        return next(iter(self._refused.values()), None)

    def keep(self, now: float) -> None:
        """See now and then that no lease is lost with its file.

        Args:
            now: monotonic seconds.
        """
        if self._leases is None or (self._kept_at is not None and now - self._kept_at < KEEP_S):
            return
        self._kept_at = now
        for said in self._leases.keep():
            self._say_once(said, said)

    def _say_once(self, what: str, said: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._say(said)

    def _benched(self, card: Card) -> bool:
        until = self._known(card).benched_until
        if until is not None:
            self.leave_out(card, str(self._known(card)))
        return until is not None

    def _known(self, card: Card) -> Health:
        """What earlier runs found; a file that cannot be read costs the card nothing but its past."""
        if self._health is None:
            return Health()
        try:
            return self._health.read(card.name, self._clock())
        except BadFileError as error:
            if card.name not in self._unreadable:
                self._say(f"earlier faults of card {card.name} do not count: {error}")
            self._unreadable.add(card.name)
            return Health()

    def leave_out(self, card: Card, why: str) -> None:
        """Do without a card for the rest of this run."""
        if card.name not in self._out:
            self._out[card.name] = why
            self._say(f"card {card.name} is left out: {why}")

    def release(self, card: Card) -> None:
        """A card is not needed any more."""
        self._held.discard(card.name)
        if self._leases is not None:
            self._leases.release(card.name)

    def abandon(self, card: Card, why: str) -> None:
        """A card is out, and stays leased as long as the process lives that nobody can end."""
        self.leave_out(card, why)
        self._held.discard(card.name)
        if self._leases is not None:
            self._leases.abandon(card.name)

    def close(self) -> None:
        """Let go of every card."""
        self._held.clear()
        self._wait_no_more()
        if self._leases is not None:
            self._leases.release_all()

    def descriptors(self, cards: Sequence[Card]) -> tuple[int, ...]:
        """What holds the leases, to be handed on to the cards' worker."""
        if self._leases is None:
            return ()
        found = (self._leases.descriptor(card.name) for card in cards)
        return tuple(one for one in found if one is not None)

    def passed(self, cards: Sequence[Card]) -> None:
        """Cards have passed their check."""
        self._well.update(card.name for card in cards)

    def strike(self, card: Card, reason: str, *, certain: bool, known: bool = True) -> bool:
        """A held card had a fault; answers whether it is out of the run now.

        Where neither the card itself said so (a RAS event) nor another card of this run is well, it may be
        the software that is broken: then it counts for this run and is kept from no other.

        Args:
            card: the card.
            reason: what it did.
            certain: whether the card itself said so.
            known: whether it was this card, and not perhaps another of several.
        """
        self._strikes[card.name] = self._strikes.get(card.name, 0) + 1
        kept = known and (certain or self._well - {card.name})
        benched = self._keep(card, reason) if kept else None
        if benched is not None:
            self.leave_out(card, benched)
        elif self._strikes[card.name] >= self._rules.strikes:
            self.leave_out(card, f"given up for this run after {self._strikes[card.name]} faults: {reason}")
        else:
            self._say(f"card {card.name}: fault {self._strikes[card.name]} in this run: {reason}")
        return card.name in self._out

    def fault(self, cards: Sequence[Card], reason: str, *, certain: bool, stuck: bool) -> bool:
        """Cards that were used as one had a fault; answers whether one of them is out of the run now.

        Where the reason does not name one, each is watched and none is benched beyond this run.

        Args:
            cards: all that were used.
            reason: what they did.
            certain: whether a card itself said so.
            stuck: whether a process has them open for ever: another check might never end either.
        """
        named = at_fault(cards, reason)
        out = [self.strike(card, reason, certain=certain, known=len(named) == 1) for card in named]
        for card in cards if stuck else ():
            self.leave_out(card, reason)
        return stuck or any(out)

    def _keep(self, card: Card, reason: str) -> str | None:
        """Note a strike for all runs; what to say where it benches the card."""
        if self._health is None:
            return None
        fault = strike(self._clock(), reason, self._run)
        health = struck(self._known(card), fault, self._health.rules)
        try:
            self._health.write(card.name, health)
        except (OSError, SpyreCiError) as error:
            self._say(f"a fault of card {card.name} cannot be recorded: {error}")
            return None
        return str(health) if health.benched_until is not None else None

    def is_out(self, card: Card) -> bool:
        """Whether a card is not used any more in this run."""
        return card.name in self._out

    def why_out(self, card: Card) -> str:
        """Why a card is not used any more."""
        return self._out.get(card.name, "")

    @property
    def left(self) -> int:
        """How many cards the run may still come to have at once."""
        return min(self.size, sum(card.name not in self._out for card in self._cards))

    def may_have(self, count: int, *, avoid: Collection[str] = (), leasable: bool = False) -> bool:
        """Whether so many cards may come free that are not called as those to `avoid`.

        Args:
            count: how many.
            avoid: names of cards.
            leasable: whether only those count that could be leased when they were last asked for.
        """
        besides = {*avoid, *self._refused} if leasable else avoid
        return min(self.size, sum(self._wanted(card, besides) for card in self._cards)) >= count

    def why_none(self) -> str:
        """Why there is no card: which are out, and which are another run's."""
        out = ", ".join(f"{name} ({why})" for name, why in self._out.items())
        said = "; ".join(filter(None, [out, self.blockers()]))
        return f"{NO_CARD_LEFT}: {said}" if said else NO_CARD_LEFT

    def blockers(self) -> str:
        """Which cards are another run's, for one that came first, or cannot be leased; empty where none is.

        What this run has let go of and nobody has taken since is to blame for nothing.
        """
        if self._leases is None:
            return ""
        ahead = self._ahead()
        whose = ((card.name, self._whose(card, ahead)) for card in filter(self._wanted, self._cards))
        held = [f"{name} is {said}" for name, said in whose if said]
        more = f" and {len(held) - _SHOWN} more" if len(held) > _SHOWN else ""
        trouble = "" if self.trouble is None else f"{self.trouble.where}: {self.trouble.what}"
        return "; ".join(filter(None, ["; ".join(held[:_SHOWN]) + more, trouble]))

    def _whose(self, card: Card, ahead: Mapping[str, Ticket]) -> str:
        if self._leases is not None and self._leases.is_taken(card.name):
            return f"in use by {self._leases.holder(card.name) or 'an unknown run'}"
        return f"for {ahead[card.name]}" if card.name in ahead else ""

    def tell_waiting(self, now: float) -> None:
        """Say now and then who is waited for.

        Args:
            now: monotonic seconds.
        """
        due = self._told_at is None or now - self._told_at >= SAY_EVERY_S
        if due and (blockers := self.blockers()):  # else one came free just now, and is asked for next
            self._told_at = now
            self._say(f"waiting for a card: {blockers}")


def at_fault(cards: Sequence[Card], reason: str) -> list[Card]:
    """Those of several cards, used as one, that a reason names; all of them where it names none."""
    named = [
        card for card in cards if re.search(rf"(?<![\w.:-]){re.escape(card.name)}(?![\w:-]|\.\w)", reason)
    ]
    return named or list(cards)
