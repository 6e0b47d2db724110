"""The supervisor of one host: a worker a card, pieces handed to whoever is free, lost workers replaced.

It imports no torch. What it knows of a test it reads from the workers' journals, as everybody else does.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Sequence

from ci.core.commands import signal_name
from ci.core.errors import UsageError
from ci.core.interrupts import INTERRUPTS, noted
from ci.record import events
from ci.record.events import JournalEvent
from ci.record.journal import EXIT_UNWRITABLE
from ci.record.run_state import STOPPED
from ci.record.verdict import NO_OUTCOME
from ci.runner.allocator import CardAllocator
from ci.runner.channel import Answer, wait_for
from ci.runner.claims.joining import ClaimSettings
from ci.runner.claims.peers import Peers
from ci.runner.claims.session import ClaimSession
from ci.runner.inventory import Card, together
from ci.runner.pool import CardPool
from ci.runner.resume import cannot_go_on
from ci.runner.retries import Pending, Retries
from ci.runner.scheduler import Job, Scheduler
from ci.runner.shard_journals import Attempts, explained
from ci.runner.slot import WorkerSlot
from ci.runner.work import RunOptions, Work
from ci.runner.worker_process import WorkerProcess
from test_selection.pieces import Piece
from test_selection.plan import Shard

POLL_S = 0.05
Listener = Callable[[int, JournalEvent], None]


def run_plan(
    work: Work,
    *,
    cards: Sequence[Card] | CardPool,
    options: RunOptions,
    listen: Listener,
    claims: ClaimSettings | None = None,
    pending: Sequence[Pending] = (),
) -> bool:
    """Run shards of a plan and return whether the run was interrupted (Ctrl-C or SIGTERM).

    Args:
        work: the shards.
        cards: one worker each, since a card serves one process at a time; of a pool, those that are free,
            as they come free.
        options: how.
        listen: called with the shard's index and each event of its journal.
        claims: where this host shares the plan's pieces with others; None: it runs its shards by itself.
        pending: tests that an earlier part of the run did not come to run again.

    Raises:
        UsageError: a shard needs more cards than there are.
        CommandError: a worker cannot be started, or the share does not answer.
        FileSystemError: no card can be leased, and nothing ran yet.
        SpyreCiError: the share cannot be joined; see `ClaimSettings.join`.
    """
    pool = cards if isinstance(cards, CardPool) else CardPool(cards)
    for shard in work.shards:
        if shard.cards > pool.size:
            raise UsageError(
                f"shard {shard.index} needs {shard.cards} cards at once, and here are {pool.size}",
                remedy="give the run more cards (--cards), or plan for as many as there are",
            )
    session = None if claims is None else claims.join(work.fingerprint, work.rows, work.tick_s)
    return _Supervisor(work, pool, options, listen, session=session, pending=pending).run()


class _Supervisor:
    def __init__(
        self,
        work: Work,
        pool: CardPool,
        options: RunOptions,
        listen: Listener,
        *,
        session: ClaimSession | None,
        pending: Sequence[Pending],
    ) -> None:
        self._work, self._pool, self._options, self._listen = work, pool, options, listen
        self._allocator = CardAllocator(
            pool, work.shards, lease_timeout_s=options.lease_timeout_s, clock=time.monotonic
        )
        self._slots: list[WorkerSlot] = []
        self._checks = bool(options.preflight_timeout_s)
        self._attempts = Attempts(options.run_dir, doubts=options.doubts, listen=listen, after=options.after)
        self._began = time.monotonic()
        self._interrupts: list[int] = []
        self._retries = Retries(
            work,
            most=options.retries,
            budget=options.retry_budget,
            any_card=options.device == "cpu",
            max_fail=options.max_fail,
            spared=options.spared,
        )
        self._retries.resume(pending)
        self._scheduler = Scheduler(
            work.pieces,
            file_s=work.file_s,
            tick_s=work.tick_s,
            steals=not options.static,
            retries=self._retries,
            private=work.wide,
            first=work.first,
            apart=work.apart,
            claim=None if session is None else session.claim,
        )
        self._peers = Peers(session, self._scheduler, work.table)

    def run(self) -> bool:
        try:
            with noted() as self._interrupts:
                while not (self._interrupts or self._retries.enough):
                    self._pool.keep(time.monotonic())
                    self._peers.exchange([slot.shard for slot in self._slots], self._now)
                    self._fill()
                    self._dispatch()
                    if not self._slots and not self._allocator.waits() and not self._retry_elsewhere():
                        break
                    self._listen_to_all()
                stopped = "" if self._interrupts else self._retries.enough
                if self._interrupts or stopped:
                    self._stop()
                elif self._pool.trouble is not None and not self._attempts.begun:
                    raise self._pool.trouble  # else what ran is reported, and the rest with this reason
                self._leave_peers()
                if stopped:
                    for shard in self._work.shards:  # why what is left of it is not run
                        self._attempts.tell(shard, events.ShardEnd(status=STOPPED, message=stopped))
                elif not self._interrupts:
                    self._give_up_the_rest()
                return bool(self._interrupts)
        finally:
            for slot in self._slots:  # after an error; else there is none
                slot.link.end()
            self._peers.close()
            self._attempts.close()

    @property
    def _now(self) -> float:
        return time.monotonic() - self._began

    def _leave_peers(self) -> None:
        """What others have of this host's shards is noted in its journals."""
        for shard, host, ids in self._peers.leave(self._work.indexes):
            self._attempts.tell(self._work.shard(shard), events.Elsewhere(host=host, ids=ids))

    def _fill(self) -> None:
        """Start a worker for each shard that has its turn and finds its cards free."""
        for shard, cards in self._allocator.give_out():
            self._slots.append(self._start(shard, cards))
        if not self._allocator.waiting or not self._slots:
            self._allocator.release_free()  # nothing here needs them, or they are too few

    def _retry_elsewhere(self) -> bool:
        """Run a test again on a card that no slot has had; whether that is so, or worth waiting for."""
        found = self._allocator.for_retry(self._retries.waiting)
        if found is None:
            return self._allocator.waits_to_retry(self._retries.waiting)
        one, cards = found
        self._slots.append(self._start(self._work.shard_for(one.of), cards))
        return True

    def _start(self, shard: Shard, cards: Sequence[Card], restarts: int = 0) -> WorkerSlot:
        self._scheduler.begin(shard.index)
        attempt, card = self._attempts.begin(shard), together(cards)
        with explained(self._options.run_dir, f"the worker of shard {shard.index} cannot be started"):
            task = self._options.task(self._work.fingerprint, card.name, attempt)
            environ = {**self._options.environ, **card.environment}
            held = self._pool.descriptors(cards)
            link = WorkerProcess(task, environ, hand_on=held, read=self._attempts.read)
        return WorkerSlot(
            cards=cards, link=link, shard=shard.index, heard=time.monotonic(), restarts=restarts
        )

    def _dispatch(self) -> None:
        """Give every slot that waits something to do, or the next shard, or its leave."""
        while True:
            self._scheduler.tick(self._now)
            for slot in [one for one in self._slots if one.idle]:
                self._give(slot)
            if any(not slot.idle for slot in self._slots) or not self._slots:
                return
            # Everybody waits: whoever finds something then, finds it now.
            self._scheduler.tick(self._now, stuck=True)
            found = [self._give(slot) for slot in self._slots]
            if not any(found):
                if self._peers.wait():
                    return
                for slot in list(self._slots):
                    slot.leave()
                return

    def _give(self, slot: WorkerSlot) -> bool:
        job = self._scheduler.ask(slot.shard, slot.card.name, self._now)
        if job is not None:
            slot.begin(job, self._work.order(job))
            return True
        if (shard := self._allocator.next_shard(len(slot.cards))) is not None:
            self._follow(slot)
            self._scheduler.end(slot.shard)
            self._scheduler.begin(shard.index)
            slot.go_on(shard.index, self._attempts.begin(shard))
            return True
        # A shard of several cards waits for them, and several cards do not help where one is enough.
        if self._allocator.waiting or len(slot.cards) > 1:
            slot.leave()
            self._scheduler.end(slot.shard)
        return False

    def _listen_to_all(self) -> None:
        links = [slot.link.fileno() for slot in self._slots if not slot.link.silent]
        if self._slots:
            self._allocator.busy()
        full = [slot.link.unsent for slot in self._slots if slot.link.unsent is not None]
        wait_for(links, POLL_S, writable=full)
        for slot in list(self._slots):
            answers = slot.link.answers()
            self._follow(slot)
            for answer in answers:
                slot.heard = time.monotonic()
                self._answered(slot, answer)
            self._look_after(slot)

    def _answered(self, slot: WorkerSlot, answer: Answer) -> None:
        if not slot.ready:
            self._scheduler.hold(slot.shard, answer.held)
            self._begun(slot)
            return
        job, slot.job = slot.job, None
        if job is None:
            return
        if slot.fault is not None:
            self._account(slot, job)
            self._scheduler.lost(slot.shard, slot.ended)
            self._fault(slot)
            return
        took = self._scheduler.done(slot.shard, self._now, held=answer.held, whole=not slot.crashed)
        if took is not None:
            self._peers.took(job.of, job.piece, took)
        self._account(slot, job)
        if job.setup and (reason := slot.broken.get(job.piece.file)) is not None:
            self._give_up(slot, self._scheduler.refuse(slot.shard, job.piece.file), reason)
        if slot.suspect and self._checks:
            slot.check()

    def _begun(self, slot: WorkerSlot) -> None:
        """A worker is ready, or its card was checked."""
        if slot.leaving:
            return
        checked = slot.became_ready(check=self._checks)
        if slot.fault is not None:
            self._fault(slot)
        elif checked:
            self._pool.passed(slot.cards)

    def _fault(self, slot: WorkerSlot) -> None:
        """A card did not do what a card does: it is checked before it is used again, or not used again."""
        if self._struck_out(slot):
            self._card_is_out(slot)
            slot.leave()
        else:
            slot.forgive(check=self._checks)

    def _struck_out(self, slot: WorkerSlot) -> bool:
        """Note a fault of the card, if it had one; whether a card that the slot holds is out for it."""
        if slot.fault is None:
            return False
        return self._pool.fault(slot.cards, slot.fault, certain=slot.certain, stuck=slot.stuck)

    def _card_is_out(self, slot: WorkerSlot) -> None:
        """Do without a card: what is left of its shard is for others."""
        slot.sick = True
        self._tell_lost(slot)
        self._end_shard(slot)

    def _tell_lost(self, slot: WorkerSlot) -> None:
        for card in filter(self._pool.is_out, slot.cards):
            self._note(slot, events.CardLost(card=card.name, message=self._pool.why_out(card)))

    def _end_shard(self, slot: WorkerSlot) -> None:
        """What a slot leaves undone waits for a card again, with what it had taken over from others."""
        self._scheduler.end(slot.shard)
        served = {one.shard for one in self._slots if not one.sick and not one.leaving}
        self._allocator.wait_again(self._scheduler.left_over().keys() - served)

    def _account(self, slot: WorkerSlot, job: Job) -> None:
        """Tell other hosts of a piece that nothing is left of to run."""
        if job.why != "retry" and not job.setup and slot.ended.issuperset(job.piece.ids):
            self._peers.accounted(job.of, job.piece)

    def _give_up(self, slot: WorkerSlot, pieces: Sequence[Piece], reason: str) -> None:
        if not pieces:
            return
        self._note(slot, events.NotRun(ids=[name for piece in pieces for name in piece.ids], message=reason))
        for piece in pieces:
            self._peers.give_up(slot.shard, piece)

    def _look_after(self, slot: WorkerSlot) -> None:
        """Notice a worker that has ended, or has said nothing for too long."""
        code = slot.link.process.poll()
        if code is not None:
            self._follow(slot)
            self._has_ended(slot, code)
            return
        if slot.look(time.monotonic(), silence_s=self._options.silence_s):
            slot.link.abandon()  # what it holds, it holds
            stuck = f"the worker on {slot.card.name} cannot be ended: it hangs in the kernel"
            self._lost(slot, stuck, for_good=True)

    def _has_ended(self, slot: WorkerSlot, code: int) -> None:
        if code == EXIT_UNWRITABLE:
            slot.link.answers()  # its last word, where that was not heard yet
            if slot.link.refused is not None:
                raise cannot_go_on(self._options.run_dir, slot.link.refused)
        if self._interrupts and -code in INTERRUPTS:
            return  # it was ended with the whole run, which is over in a moment
        slot.link.end()
        if slot.sick or slot.leaving:
            self._slots.remove(slot)
            self._part(slot)
        else:
            said = f"died by {signal_name(-code)}" if code < 0 else f"ended with code {code}"
            self._lost(slot, f"the worker on {slot.card.name} {said}")

    def _part(self, slot: WorkerSlot) -> None:
        """A worker has ended: its cards are free, but for those that are out."""
        if not slot.sick and self._struck_out(slot):
            self._tell_lost(slot)
        if not slot.finished:
            self._note(slot, events.ShardEnd(status="done"))
        if slot.stuck:
            self._allocator.abandon(slot.cards, slot.fault or "")
        else:
            self._allocator.take_back(slot.cards)

    def _follow(self, slot: WorkerSlot) -> None:
        for event in slot.link.events():
            slot.heard = time.monotonic()
            finished = slot.finished
            outcomes = slot.take(event)
            had = (name for name, one in outcomes.ended.items() if one.outcome not in NO_OUTCOME)
            self._peers.ended(had, slot.attempt.journal)
            for said in self._retries.learn(outcomes, card=slot.card.name, attempt=slot.number):
                self._attempts.write(slot.attempt, said)
            if slot.finished and not finished:
                self._attempts.guard(slot.attempt.journal)
            self._listen(slot.attempt.shard, event)

    def _lost(self, slot: WorkerSlot, said: str, *, for_good: bool = False) -> None:
        """Account for a worker that exited without a result, and let another do what is left."""
        running = slot.state.running
        self._note(slot, events.WorkerLost(id=running, message=said))
        if running is not None:
            slot.ended.add(running)
            if slot.killed_at is not None:
                self._retries.hung(running, card=slot.card.name, attempt=slot.number)
            else:
                self._retries.lost(running, attempt=slot.number)
        if slot.job is not None:
            self._account(slot, slot.job)
        self._scheduler.lost(slot.shard, slot.ended)
        self._note(slot, events.ShardEnd(status="done"))
        if self._struck_out(slot):
            self._slots.remove(slot)
            self._card_is_out(slot)
            self._part(slot)
        elif not for_good and slot.restarts < self._options.worker_restarts:
            fresh = self._start(self._work.shard(slot.shard), slot.cards, slot.restarts + 1)
            self._slots[self._slots.index(slot)] = fresh
        else:
            self._slots.remove(slot)
            log = f"logs/{slot.shard}-{slot.attempt.number}.log"
            reason = f"the shard's worker was lost {slot.restarts + 1} times; its log: {log}"
            self._do_without(slot, said if for_good else reason)

    def _do_without(self, lost: WorkerSlot, reason: str) -> None:
        """A card is gone for this run; another has a try at what is left of its shard, once."""
        wide = len(lost.cards) > 1
        self._allocator.lost(lost.shard, reason, wide=wide)
        self._retries.bar([card.name for card in lost.cards])
        if lost.killed_at is not None:
            self._allocator.abandon(lost.cards, reason)
        else:
            if not wide:  # of several cards nobody knows which it was, or whether it was one at all
                self._pool.leave_out(lost.cards[0], reason)
            self._allocator.release(lost.cards)
        self._tell_lost(lost)
        self._end_shard(lost)

    def _give_up_the_rest(self) -> None:
        """Say of what nobody is left for why it was not run, or not run again."""
        for of, event in self._retries.give_up(self._pool.blockers()):
            # A test of another host's shard is told of in a journal of this one's.
            self._attempts.write(self._attempts.of(self._work.shard_for(of)), event)
        unclaimed = f"not claimed: {self._peers.trouble}" if self._peers.trouble else ""
        for shard, ids in self._scheduler.left_over().items():
            if shard not in self._work.indexes:
                continue  # another host's to tell of
            reason = unclaimed or self._allocator.reasons.get(shard) or self._pool.why_none()
            attempt = self._attempts.of(self._work.shard(shard))
            self._attempts.write(attempt, events.NotRun(ids=ids, message=reason))
            self._attempts.write(attempt, events.ShardEnd(status="done"))

    def _stop(self) -> None:
        """Let every worker write its account, then end what is left."""
        for slot in self._slots:
            slot.link.stop()
        deadline = time.monotonic() + self._options.grace_s
        while self._slots:
            slot = self._slots.pop()
            with contextlib.suppress(subprocess.TimeoutExpired):
                slot.link.process.wait(timeout=max(0.1, deadline - time.monotonic()))
            slot.link.end()
            self._follow(slot)
            if not slot.finished:
                self._note(slot, events.ShardEnd(status="interrupted"))

    def _note(self, slot: WorkerSlot, event: JournalEvent) -> None:
        """Write what a worker that is gone can no longer write, or that nobody told it."""
        self._attempts.write(slot.attempt, event)
        self._follow(slot)
