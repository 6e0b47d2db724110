"""The supervisor of one host: a worker a card, pieces handed to whoever is free, lost workers replaced.

It imports no torch. What it knows of a test it reads from the workers' journals, as everybody else does.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from ci.core.errors import UsageError
from ci.core.interrupts import noted
from ci.core.process import signal_name
from ci.record import events
from ci.record.events import JournalEvent
from ci.record.journal import EXIT_UNWRITABLE
from ci.record.run_state import STOPPED
from ci.runner.attempts import Attempts, explained
from ci.runner.cards import Card, at_fault, together
from ci.runner.claims.opening import Meeting
from ci.runner.claims.share import Share
from ci.runner.desk import Desk
from ci.runner.dispatch import Dispatcher, Job
from ci.runner.link import Link
from ci.runner.messages import Answer, wait_for
from ci.runner.neighbours import Neighbours
from ci.runner.patience import KILL_S
from ci.runner.pool import CardPool
from ci.runner.post import Post
from ci.runner.resume import cannot_go_on
from ci.runner.retries import Owed, Retries
from ci.runner.run_options import RunOptions
from ci.runner.tries import Tries
from ci.runner.work import Work
from test_selection.plan import Plan, Shard
from test_selection.selection import Expectation
from test_selection.steal import Piece

POLL_S = 0.05
# When a card that failed its check has another.
RECHECK_S = 1.0
# So many cards are lost to the workers of one shard before it is the shard that is given up.
CARDS_A_SHARD = 2
NO_CARD_LEFT = "no card was left to run it"
Listener = Callable[[int, JournalEvent], None]


def run_plan(
    plan: Plan,
    shards: Sequence[Shard],
    *,
    cards: Sequence[Card] | CardPool,
    expectations: Mapping[str, Expectation],
    options: RunOptions,
    listen: Listener,
    durations: Mapping[str, float] | None = None,
    file_s: Mapping[str, float] | None = None,
    timeouts: Mapping[str, float] | None = None,
    meeting: Meeting | None = None,
    whole: Plan | None = None,
    owed: Sequence[Owed] = (),
) -> bool:
    """Run shards of a plan and return whether the run was interrupted (Ctrl-C or SIGTERM).

    Args:
        plan: the whole plan.
        shards: those to run here.
        cards: one worker each, since a card serves one process at a time; of a pool, those that are free,
            as they come free.
        expectations: declared outcomes by id.
        options: how.
        listen: called with the shard's index and each event of its journal.
        durations: seconds expected of each test, by which shards are cut into pieces.
        file_s: set-up seconds expected of each file.
        timeouts: seconds after which a test counts as hung, where its own history says.
        meeting: where this host shares the plan's pieces with others; None: it runs its shards by itself.
        whole: what `plan` is the rest of, where a run is resumed.
        owed: tests that an earlier part of the run did not come to run again.

    Raises:
        UsageError: a shard needs more cards than there are.
        CommandError: a worker cannot be started, or the share does not answer.
        FileSystemError: no card can be leased, and nothing ran yet.
        SpyreCiError: the share cannot be joined; see `Meeting.join`.
    """
    pool = cards if isinstance(cards, CardPool) else CardPool(cards)
    for shard in shards:
        if shard.groups and shard.cards > pool.size:
            raise UsageError(
                f"shard {shard.index} needs {shard.cards} cards at once, and here are {pool.size}",
                remedy="give the run more cards (--cards), or plan for as many as there are",
            )
    work = Work(
        plan,
        shards,
        durations=durations or {},
        expectations=expectations,
        timeouts=timeouts,
        spawned=options.spawned,
        shared=meeting is not None,
        whole=whole,
    )
    share = None if meeting is None else meeting.join(plan.fingerprint, work.rows, work.tick_s)
    return _Supervisor(
        plan.fingerprint, work, pool, options, file_s=file_s or {}, listen=listen, share=share, owed=owed
    ).run()


class _Supervisor:
    def __init__(
        self,
        fingerprint: str,
        work: Work,
        pool: CardPool,
        options: RunOptions,
        *,
        file_s: Mapping[str, float],
        listen: Listener,
        share: Share | None = None,
        owed: Sequence[Owed] = (),
    ) -> None:
        self._fingerprint, self._work, self._options, self._listen = fingerprint, work, options, listen
        self._pool = pool
        self._desk = Desk(pool, work.shards, lease_timeout_s=options.lease_timeout_s, clock=time.monotonic)
        self._posts: list[Post] = []
        self._attempts = Attempts(options.run_dir, doubts=options.doubts, refused=listen, after=options.after)
        # Why workers of a shard were lost, and to how many cards.
        self._reasons: dict[int, str] = {}
        self._losses: Counter[int] = Counter()
        self._began = time.monotonic()
        self._retries = Retries(
            most=options.retries, budget=options.retry_budget, any_card=options.device == "cpu"
        )
        self._retries.owed(owed)
        self._tries = Tries(self._retries, work, self._attempts)
        self._dispatcher = Dispatcher(
            work.pieces,
            file_s=file_s,
            tick_s=work.tick_s,
            steals=not options.static,
            private=work.wide,
            apart=work.apart,
            retries=self._retries,
            **({} if share is None else {"claim": share.claim}),
        )
        self._neighbours = Neighbours(share, self._dispatcher, work)

    def run(self) -> bool:
        try:
            with noted() as interrupts:
                while not (interrupts or self._options.stop()):
                    self._pool.keep(time.monotonic())
                    self._exchange()
                    self._fill()
                    self._dispatch()
                    if not self._posts and not self._desk.waits() and not self._retry_elsewhere():
                        break
                    self._listen_to_all()
                stopped = "" if interrupts else self._options.stop()
                if interrupts or stopped:
                    self._stop()
                elif self._pool.trouble is not None and not self._attempts.journals:
                    raise self._pool.trouble  # else what ran is reported, and the rest with this reason
                self._leave_the_neighbours()
                if stopped:
                    self._ask_for_nothing_more(stopped)
                elif not interrupts:
                    self._give_up_the_rest()
                return bool(interrupts)
        finally:
            for post in self._posts:  # after an error; else there is none
                post.link.end()
            self._neighbours.close()
            self._attempts.close()

    @property
    def _now(self) -> float:
        return time.monotonic() - self._began

    def _exchange(self) -> None:
        busy = bool(self._desk.waiting) or any(not post.idle for post in self._posts)
        self._neighbours.exchange([post.shard for post in self._posts], self._now, busy=busy)

    def _leave_the_neighbours(self) -> None:
        """What others have of this host's shards is noted in its journals."""
        for shard, host, ids in self._neighbours.leave(self._attempts.journals, self._now):
            attempt = self._attempts.of(self._work.shard(shard))
            self._attempts.write(attempt, events.Elsewhere(host=host, ids=ids))
            self._listen(shard, events.Elsewhere(host=host, ids=ids))

    def _fill(self) -> None:
        """Start a worker for each shard that has its turn and finds its cards free."""
        for shard, cards in self._desk.give_out():
            self._begin(shard, cards)
        if not self._desk.waiting or not self._posts:
            self._desk.release_free()  # nothing here needs them, or they are too few

    def _retry_elsewhere(self) -> bool:
        """Run a test again on a card that no post has had; whether that is so, or worth waiting for."""
        found = self._desk.for_retry(self._retries.waiting)
        if found is None:
            return self._desk.waits_to_retry(self._retries.waiting)
        one, cards = found
        self._begin(self._work.shard_for(one.of), cards)
        return True

    def _begin(self, shard: Shard, cards: Sequence[Card]) -> None:
        self._dispatcher.begin(shard.index)
        self._posts.append(self._post(shard, cards))

    def _post(self, shard: Shard, cards: Sequence[Card], restarts: int = 0) -> Post:
        attempt, card = self._attempts.begin(shard), together(cards)
        with explained(self._options.run_dir, f"the worker of shard {shard.index} cannot be started"):
            task = self._options.task(self._fingerprint, card.name)
            environ = {**self._options.environ, **card.environment}
            held = self._pool.descriptors(cards)
            link = Link(attempt, task, environ, hand_on=held, read=self._attempts.read)
        return Post(cards=cards, link=link, shard=shard.index, heard=time.monotonic(), restarts=restarts)

    def _dispatch(self) -> None:
        """Give every post that waits something to do, or the next shard, or its leave."""
        while True:
            self._dispatcher.tick(self._now)
            for post in [one for one in self._posts if one.idle]:
                self._give(post)
            if any(not post.idle for post in self._posts) or not self._posts:
                return
            # Everybody waits: whoever finds something then, finds it now.
            self._dispatcher.tick(self._now, stuck=True)
            found = [self._give(post) for post in self._posts]
            if not any(found):
                if self._neighbours.wait():
                    return
                for post in list(self._posts):
                    post.leave()
                return

    def _give(self, post: Post) -> bool:
        job = self._dispatcher.ask(post.shard, post.card.name, self._now)
        if job is not None:
            post.begin(job, self._work.order(job))
            return True
        if (shard := self._desk.next_shard(len(post.cards))) is not None:
            self._next_shard(post, shard)
            return True
        # A shard of several cards waits for them, and several cards do not help where one is enough.
        if self._desk.waiting or len(post.cards) > 1:
            post.leave()
            self._dispatcher.end(post.shard)
        return False

    def _next_shard(self, post: Post, shard: Shard) -> None:
        self._follow(post)
        self._dispatcher.end(post.shard)
        self._dispatcher.begin(shard.index)
        post.go_on(shard.index, self._attempts.begin(shard))

    def _listen_to_all(self) -> None:
        links = [post.link.fileno() for post in self._posts if not post.link.silent]
        if self._posts:
            self._desk.busy()
        full = [post.link.unsent for post in self._posts if post.link.unsent is not None]
        wait_for(links, POLL_S, writable=full)
        for post in list(self._posts):
            answers = post.link.answers()
            self._follow(post)
            for answer in answers:
                post.heard = time.monotonic()
                self._answered(post, answer)
            self._look_after(post)

    def _answered(self, post: Post, answer: Answer) -> None:
        if not post.ready:
            self._dispatcher.hold(post.shard, answer.held)
            self._begun(post)
            return
        job, post.job = post.job, None
        if job is None:
            return
        if post.fault is not None:
            self._account(post, job)
            self._dispatcher.lost(post.shard, post.ended)
            self._fault(post, post.fault)
            return
        took_s = self._dispatcher.done(post.shard, self._now, held=answer.held, whole=not post.crashed)
        if took_s is not None:
            self._neighbours.learn(post.shard, job, took_s)
        self._account(post, job)
        if job.setup and (reason := post.broken.get(job.piece.file)) is not None:
            self._give_up(post, self._dispatcher.refuse(post.shard, job.piece.file), reason)
        if post.suspect and self._options.preflight_timeout_s:
            post.check()

    def _begun(self, post: Post) -> None:
        """A worker is ready, or its card was checked."""
        if post.leaving:
            return
        for event in post.link.late_events():
            post.take_late(event)
        if post.fault is not None:
            self._fault(post, post.fault)
            return
        if not post.checking and not post.checked and self._options.preflight_timeout_s:
            post.check()
            return
        if post.checking:
            self._pool.passed(post.cards)
        post.ready, post.checking, post.checked = True, False, True

    def _fault(self, post: Post, reason: str) -> None:
        """A card did not do what a card does: it is checked before it is used again, or not used again."""
        if self._strike(post, reason):
            self._drop(post)
        elif self._options.preflight_timeout_s:
            post.ready, post.checking, post.fault = False, True, None
            post.check_at = time.monotonic() + RECHECK_S
        else:
            post.fault = None

    def _strike(self, post: Post, reason: str) -> bool:
        """Note a fault with the card that had it; whether one that the post holds is out."""
        cards = at_fault(post.cards, reason)
        # Of several it is not known which it was: each is watched, and none is benched beyond this run.
        out = [self._pool.strike(card, reason, certain=post.certain, known=len(cards) == 1) for card in cards]
        if post.stuck:  # another check of a card that somebody has open for ever might never end either
            for card in post.cards:
                self._pool.leave_out(card, reason)
        return post.stuck or any(out)

    def _drop(self, post: Post) -> None:
        """Do without a card: its worker ends, and what is left of its shard is for others."""
        post.sick = True
        self._tell_lost(post)
        post.leave()
        self._end_shard(post)

    def _tell_lost(self, post: Post) -> None:
        for card in filter(self._pool.is_out, post.cards):
            self._note(post, events.CardLost(card=card.name, message=self._pool.why_out(card)))

    def _end_shard(self, post: Post) -> None:
        """What a post leaves undone waits for a card again, with what it had taken over from others."""
        self._dispatcher.end(post.shard)
        left = set(self._dispatcher.left_over()) & set(self._work.indexes)
        served = {one.shard for one in self._posts if not one.sick and not one.leaving}
        served |= {shard.index for shard in self._desk.waiting}
        served |= {shard for shard, cards in self._losses.items() if cards >= CARDS_A_SHARD}
        self._desk.put([self._work.shard(index) for index in sorted(left - served)])

    def _account(self, post: Post, job: Job) -> None:
        """Tell other hosts of a piece that nothing is left of to run."""
        self._neighbours.wrote(post.attempt.journal)
        if job.why != "retry" and not job.setup and post.ended.issuperset(job.piece.ids):
            self._neighbours.accounted(job.of, job.piece)

    def _give_up(self, post: Post, pieces: Sequence[Piece], reason: str) -> None:
        if not pieces:
            return
        self._note(post, events.NotRun(ids=[name for piece in pieces for name in piece.ids], message=reason))
        for piece in pieces:
            self._neighbours.give_up(post.shard, piece)

    def _look_after(self, post: Post) -> None:
        """Notice a worker that has ended, or has said nothing for too long."""
        code = post.link.process.poll()
        if code is not None:
            self._follow(post)
            self._has_ended(post, code)
            return
        now = time.monotonic()
        if post.killed_at is not None:
            if now - post.killed_at > KILL_S:
                self._abandon(post)
        elif post.busy and now - post.heard > self._options.silence_s:
            post.kill()  # stuck in a driver, or stopped: its child's time-outs need it
        elif post.check_at is not None and now >= post.check_at:
            post.check()

    def _has_ended(self, post: Post, code: int) -> None:
        if code == EXIT_UNWRITABLE:
            post.link.answers()  # its last word, where that was not heard yet
            if post.link.refused is not None:
                raise cannot_go_on(self._options.run_dir, post.link.refused)
        post.link.end()
        if post.sick or post.leaving:
            self._posts.remove(post)
            self._part(post)
        else:
            said = f"died by {signal_name(-code)}" if code < 0 else f"ended with code {code}"
            self._lost(post, f"the worker on {post.card.name} {said}")

    def _part(self, post: Post) -> None:
        """A worker has ended: its cards are free, but for those that are out."""
        if post.fault is not None and not post.sick and self._strike(post, post.fault):
            self._tell_lost(post)
        if not post.finished:
            self._note(post, events.ShardEnd(status="done"))
        if post.stuck:
            self._desk.abandon(post.cards, post.fault or "")
        else:
            self._desk.take_back(post.cards)

    def _follow(self, post: Post) -> None:
        for event in post.link.events():
            post.heard = time.monotonic()
            finished = post.finished
            self._tries.learn(post, post.take(event))
            if post.finished and not finished:
                self._attempts.guard(post.attempt.journal)
            self._listen(post.attempt.shard, event)

    def _lost(self, post: Post, said: str, *, for_good: bool = False) -> None:
        """Account for a worker that went without a word, and let another do what is left."""
        running = post.current
        self._note(post, events.WorkerLost(id=running, message=said))
        if running is not None:
            post.ended.add(running)
            self._tries.lost(post, running)
        if post.job is not None:
            self._account(post, post.job)
        self._dispatcher.lost(post.shard, post.ended)
        self._note(post, events.ShardEnd(status="done"))
        if post.fault is not None and self._strike(post, post.fault):
            self._posts.remove(post)
            post.sick = True
            self._tell_lost(post)
            self._end_shard(post)
            self._part(post)
        elif not for_good and post.restarts < self._options.worker_restarts:
            fresh = self._post(self._work.shard(post.shard), post.cards, post.restarts + 1)
            self._posts[self._posts.index(post)] = fresh
        else:
            self._posts.remove(post)
            log = f"logs/{post.shard}-{post.attempt.number}.log"
            reason = f"the shard's worker was lost {post.restarts + 1} times; its log: {log}"
            self._do_without(post, said if for_good else reason)

    def _abandon(self, post: Post) -> None:
        """Go on without a worker that no signal ends; what it holds, it holds."""
        post.link.abandon()
        self._lost(
            post, f"the worker on {post.card.name} cannot be ended: it hangs in the kernel", for_good=True
        )

    def _do_without(self, lost: Post, reason: str) -> None:
        """A card is gone for this run; another has a try at what is left of its shard, once."""
        wide = len(lost.cards) > 1
        self._reasons[lost.shard] = reason
        self._losses[lost.shard] += CARDS_A_SHARD if wide else 1
        self._retries.bar([card.name for card in lost.cards])
        if lost.killed_at is not None:
            self._desk.abandon(lost.cards, reason)
        else:
            if not wide:  # of several cards nobody knows which it was, or whether it was one at all
                self._pool.leave_out(lost.cards[0], reason)
            self._desk.release(lost.cards)
        self._tell_lost(lost)
        self._end_shard(lost)

    def _give_up_the_rest(self) -> None:
        """Say of what nobody is left for why it was not run, or not run again."""
        self._tries.give_up(self._pool.blockers())
        for shard, ids in self._dispatcher.left_over().items():
            if shard not in self._work.indexes:
                continue  # another host's to tell of
            lost = self._neighbours.trouble
            reason = f"not claimed: {lost}" if lost else self._reasons.get(shard) or self._no_card()
            attempt = self._attempts.of(self._work.shard(shard))
            self._attempts.write(attempt, events.NotRun(ids=ids, message=reason))
            self._attempts.write(attempt, events.ShardEnd(status="done"))

    def _ask_for_nothing_more(self, why: str) -> None:
        """Say in the journals of this host's shards why what is left of them is not run."""
        for shard in self._work.shards:
            end = events.ShardEnd(status=STOPPED, message=why)
            self._attempts.write(self._attempts.of(shard), end)
            self._listen(shard.index, end)

    def _no_card(self) -> str:
        """Why there is no card."""
        lost = ", ".join(self._pool.lost)
        said = "; ".join(filter(None, [lost, self._pool.blockers()]))
        return f"{NO_CARD_LEFT}: {said}" if said else NO_CARD_LEFT

    def _stop(self) -> None:
        """Let every worker write its account, then end what is left."""
        for post in self._posts:
            post.link.stop()
        deadline = time.monotonic() + self._options.grace_s
        while self._posts:
            post = self._posts.pop()
            with contextlib.suppress(subprocess.TimeoutExpired):
                post.link.process.wait(timeout=max(0.1, deadline - time.monotonic()))
            post.link.end()
            self._follow(post)
            if not post.finished:
                self._note(post, events.ShardEnd(status="interrupted"))

    def _note(self, post: Post, event: JournalEvent) -> None:
        """Write what a worker that is gone can no longer write, or that nobody told it."""
        self._attempts.write(post.attempt, event)
        self._follow(post)
