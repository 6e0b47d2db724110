"""What becomes of tests that failed, or were lost with their worker: another try, or a word on why not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from ci.record import events
from ci.record.journal import XPASS_STRICT
from ci.record.verdict import FAILING
from ci.runner.attempts import Attempts
from ci.runner.post import Post, Told
from ci.runner.retries import NO_OTHER_CARD, TOO_MANY, Again, Retries
from ci.runner.work import Work

NO_CARD = "no card was left to run it again"
IN_ORDER = "it runs after other tests of its file (in_order), and not alone"
BROKEN = "it ran in a new process, since {} before it had ended theirs, and may have missed what that left"


class _Facts(TypedDict):
    file: str
    of: int
    attempt: int
    cards: int


class Tries:
    """Hears how tests ended on this host."""

    def __init__(self, retries: Retries, work: Work, attempts: Attempts) -> None:
        self._retries, self._work, self._attempts = retries, work, attempts
        # Tests that ended their process: what runs after them in a given order misses what they left.
        self._broke: set[str] = set()

    def learn(self, post: Post, told: Told) -> None:
        """Have a test run again where a post's journal says that it failed."""
        for name, why in told.in_vain.items():  # else its failure would stand there as if nobody had tried
            self._attempts.write(post.attempt, events.NoRetry(ids=[name], message=why))
        for name, one in told.ended.items():
            if one.cause is not None:
                self._broke.add(name)
            # One that was to fail and passed has been told apart already: another card says no more of it.
            if one.outcome not in FAILING or one.message.startswith(XPASS_STRICT):
                continue
            before = self._work.before(name)
            if before and self._retries.most:
                self._attempts.write(post.attempt, events.NoRetry(ids=[name], message=self._in_order(before)))
            else:
                self._failed(post, name)

    def _in_order(self, before: Sequence[str]) -> str:
        broke = next((name for name in reversed(before) if name in self._broke), None)
        return IN_ORDER if broke is None else f"{IN_ORDER}; {BROKEN.format(broke)}"

    def lost(self, post: Post, name: str) -> None:
        """A test ran when its worker was lost; where that hung, it may have been the card's doing."""
        self._broke.add(name)
        if post.killed_at is not None:
            self._failed(post, name)
        else:
            self._retries.lost(name, **self._of(post, name))

    def give_up(self, blockers: str) -> None:
        """Say of what waits, or was refused, why it is not run again.

        Args:
            blockers: who holds the other cards; empty where nobody does.
        """
        for one in self._retries.waiting:
            reason = NO_CARD if one.last else NO_OTHER_CARD
            self._say(one, f"{reason}; {blockers}" if blockers else reason)
        for one in self._retries.refused:
            self._say(one, TOO_MANY)

    def _failed(self, post: Post, name: str) -> None:
        self._retries.failed(name, card=post.card.name, **self._of(post, name))

    def _of(self, post: Post, name: str) -> _Facts:
        work = self._work
        attempt = 1 if post.job is None else post.job.attempt
        return {
            "file": work.file_of(name),
            "of": work.shard_of(name),
            "attempt": attempt,
            "cards": work.cards_of(name),
        }

    def _say(self, one: Again, reason: str) -> None:
        # A test of another host's shard is told of in a journal of this one's.
        attempt = self._attempts.of(self._work.shard_for(one.of))
        self._attempts.write(attempt, events.NoRetry(ids=[one.id], message=reason))
