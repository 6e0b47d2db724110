"""The supervisor of one host: a worker a card, pieces handed to whoever is free, lost workers replaced.

It imports no torch. What it knows of a test it reads from the workers' journals, as everybody else does.
"""

from __future__ import annotations

import contextlib
import select
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ci.errors import CommandError, UsageError
from ci.interrupts import noted
from ci.process import signal_name
from ci.runner.cards import Card, together
from ci.runner.claims.news import Learnt
from ci.runner.claims.opening import Meeting
from ci.runner.claims.share import Share
from ci.runner.claims.view import View, posted
from ci.runner.dispatch import Dispatcher, Job
from ci.runner.journal import EXIT_UNWRITABLE, UNWRITABLE, XPASS_STRICT, Event, JournalWriter
from ci.runner.link import Attempt, Link, new_attempt
from ci.runner.pool import CardPool
from ci.runner.post import Post
from ci.runner.resume import cannot_go_on
from ci.runner.retries import Retries
from ci.runner.run_options import RunOptions
from ci.runner.work import Work
from test_selection.plan import Plan, Shard
from test_selection.selection import Expectation
from test_selection.steal import Piece

POLL_S = 0.05
# How often cards are asked for that other runs hold, and when a card that failed its check has another.
CARDS_POLL_S = 1.0
RECHECK_S = 1.0
NO_CARD_LEFT = "no card was left to run it"
NO_OTHER_CARD = "it is not run again: there is no other card than those it failed on"
Listener = Callable[[int, Mapping[str, Any]], None]


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
        whole: what `plan` is the rest of, where a run that shares is resumed.

    Raises:
        UsageError: a shard needs more cards than there are.
        CommandError: a worker cannot be started, or the share does not answer.
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
        whole=None if meeting is None else whole,
    )
    share = None if meeting is None else meeting.join(plan.fingerprint, work.rows, work.tick_s)
    return _Supervisor(
        plan.fingerprint, work, pool, options, file_s=file_s or {}, listen=listen, share=share
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
    ) -> None:
        self._fingerprint, self._work, self._options, self._listen = fingerprint, work, options, listen
        self._pool = pool
        self._free: list[Card] = []
        self._asked: float | None = None
        self._waiting = deque(work.shards)
        self._posts: list[Post] = []
        self._reasons: dict[int, str] = {}
        self._attempts: dict[int, Attempt] = {}
        self._doubts = dict(options.doubts)
        self._began = self._busy_at = time.monotonic()
        self._retries = Retries(
            most=options.retries, budget=options.retry_budget, any_card=options.device == "cpu"
        )
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
        self._share, self._view = share, View(self._dispatcher, work.table)

    def run(self) -> bool:
        try:
            with noted() as interrupts:
                while not interrupts:
                    self._exchange()
                    self._fill()
                    self._dispatch()
                    if not self._posts and not self._waits():
                        break
                    self._listen_to_all()
                if interrupts:
                    self._stop()
                self._leave_the_share()
                if not interrupts:
                    self._give_up_the_rest()
                return bool(interrupts)
        finally:
            for post in self._posts:  # after an error; else there is none
                post.link.end()
            if self._share is not None:
                self._share.leave()

    @property
    def _now(self) -> float:
        return time.monotonic() - self._began

    def _exchange(self) -> None:
        """Let other hosts know what is done here, and see what they do."""
        if self._share is None:
            return
        mine = [post.shard for post in self._posts]
        busy = bool(self._waiting) or any(not post.idle for post in self._posts)
        look = self._share.look(posted(self._dispatcher.sight, mine, self._now), busy=busy)
        if look is not None:
            self._view.apply(look, mine, self._now)

    def _leave_the_share(self) -> None:
        """Nothing more is claimed here; what others have of this host's shards is noted in its journals."""
        if self._share is None:
            return
        for attempt in self._attempts.values():
            self._share.wrote(attempt.journal)
        self._view.apply(self._share.leave(), self._work.indexes, self._now)
        for shard in self._work.indexes:
            row = self._work.table[shard]
            for host, numbers in self._share.away(shard, len(row)).items():
                if ids := [name for number in numbers for name in row[number].ids]:
                    self._write(self._attempt_at(shard), "elsewhere", host=host, ids=ids)
                    self._listen(shard, {"e": "elsewhere", "host": host, "ids": ids})

    def _attempt_at(self, shard: int) -> Attempt:
        """The attempt whose journal tells of a shard; a new one where no post came to it."""
        if shard not in self._attempts:
            planned = len(self._work.shard(shard).ids)
            self._attempts[shard] = new_attempt(self._options.run_dir, shard, planned)
        return self._attempts[shard]

    def _fill(self) -> None:
        """Start a worker for each shard that waits and finds its cards free.

        One that must wait for cards lets nobody pass, or narrow ones would keep it waiting to the end.
        """
        while self._waiting and self._waiting[0].cards > self._pool.left:
            self._waiting.popleft()  # there will never be so many; what of it nobody claims is told of
        self._ask_for_cards()
        while self._waiting and self._waiting[0].cards <= len(self._free):
            shard = self._waiting.popleft()
            cards = [self._free.pop() for _ in range(shard.cards)]
            self._dispatcher.begin(shard.index)
            self._posts.append(self._post(shard, cards))
        if not self._waiting or not self._posts:
            # Nothing here needs them, or they are too few: another run may be waiting for them.
            self._release(self._free)
            self._free = []

    def _ask_for_cards(self) -> None:
        """Take what is free of the cards that shards wait for."""
        missing = sum(shard.cards for shard in self._waiting) - len(self._free)
        now = time.monotonic()
        if missing <= 0 or (self._asked is not None and now - self._asked < CARDS_POLL_S):
            return
        least = max(1, self._waiting[0].cards - len(self._free))
        taken = self._pool.take(missing, least=least)
        self._asked = None if taken else now
        self._free = [*taken[::-1], *self._free]

    def _release(self, cards: Sequence[Card]) -> None:
        for card in cards:
            self._pool.release(card)
            self._asked = None  # with one card fewer, the run may have another

    def _waits(self) -> bool:
        """Whether a run that has no card at all is to wait for one."""
        now = time.monotonic()
        if not self._waiting or not self._pool.hopeful or now - self._busy_at > self._options.lease_timeout_s:
            return False
        self._pool.tell_waiting(now)
        return True

    def _post(self, shard: Shard, cards: Sequence[Card], restarts: int = 0) -> Post:
        link = self._start(shard, cards)
        return Post(cards=cards, link=link, shard=shard.index, heard=time.monotonic(), restarts=restarts)

    def _start(self, shard: Shard, cards: Sequence[Card]) -> Link:
        options = self._options
        try:
            attempt = self._new_attempt(shard)
            card = together(cards)
            environ = {**options.environ, **card.environment}
            self._attempts[shard.index] = attempt
            task = options.task(self._fingerprint, card.name)
            return Link(attempt, task, environ, hand_on=self._pool.descriptors(cards))
        except OSError as error:
            if error.errno in UNWRITABLE:
                raise cannot_go_on(options.run_dir, error.errno) from error
            raise CommandError(
                f"the worker of shard {shard.index} cannot be started: {error}",
                remedy=f"check the space and the rights of {options.run_dir}",
            ) from error

    def _new_attempt(self, shard: Shard) -> Attempt:
        attempt = new_attempt(self._options.run_dir, shard.index, len(shard.ids))
        for message, ids in self._doubts.pop(shard.index, {}).items():
            self._write(attempt, "resumed", ids=list(ids), message=message)
        return attempt

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
                if self._share is not None and self._share.waits():
                    return
                for post in list(self._posts):
                    self._leave(post)
                return

    def _give(self, post: Post) -> bool:
        job = self._dispatcher.ask(post.shard, post.card.name, self._now)
        if job is not None:
            post.begin(job, self._work.order(job))
            return True
        if self._waiting and self._waiting[0].cards == len(post.cards):
            self._next_shard(post, self._waiting.popleft())
            return True
        # A shard of several cards waits for them, and several cards do not help where one is enough.
        if self._waiting or len(post.cards) > 1:
            self._leave(post)
        return False

    def _next_shard(self, post: Post, shard: Shard) -> None:
        self._follow(post)
        self._dispatcher.end(post.shard)
        self._dispatcher.begin(shard.index)
        try:
            attempt = self._new_attempt(shard)
        except OSError as error:
            if error.errno in UNWRITABLE:
                raise cannot_go_on(self._options.run_dir, error.errno) from error
            raise CommandError(
                f"shard {shard.index} cannot be begun: {error}",
                remedy=f"check the space and the rights of {self._options.run_dir}",
            ) from error
        self._attempts[shard.index] = attempt
        post.link.go_on(attempt)
        post.shard = shard.index
        post.broken.clear()
        post.heard = time.monotonic()
        post.ready = False  # until it says that it has begun

    def _leave(self, post: Post) -> None:
        """Let a worker end by itself; its cards are free then."""
        post.leaving = True
        post.heard = time.monotonic()
        post.job = None
        post.ready = False
        post.link.dismiss()

    def _listen_to_all(self) -> None:
        links = {post.link.fileno(): post for post in self._posts if not post.link.silent}
        self._busy_at = time.monotonic() if self._posts else self._busy_at
        select.select(list(links), [], [], POLL_S)
        for post in list(self._posts):
            answers = post.link.answers()
            self._follow(post)
            for _ in answers:
                post.heard = time.monotonic()
                self._answered(post)
            self._look_after(post)

    def _answered(self, post: Post) -> None:
        if not post.ready:
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
        took_s = self._dispatcher.done(post.shard, self._now)
        self._account(post, job, took_s)
        if job.setup and (reason := post.broken.get(job.piece.file)) is not None:
            self._give_up(post, self._dispatcher.refuse(post.shard, job.piece.file), reason)
        if post.suspect and self._options.preflight_timeout_s:
            post.check()

    def _begun(self, post: Post) -> None:
        """A worker is ready, or its card was checked."""
        if post.leaving:
            return
        if not post.checking and not post.checked and self._options.preflight_timeout_s:
            post.check()
            return
        if post.checking and post.fault is not None:
            self._fault(post, post.fault)
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
        """Note a fault with each card that a post holds; whether one of them is out."""
        out = [self._pool.strike(card, reason, certain=post.certain) for card in post.cards]
        return any(out)

    def _drop(self, post: Post) -> None:
        """Do without a card: its worker ends, and what is left of its shard is for others."""
        post.sick = True
        for card in filter(self._pool.is_out, post.cards):
            self._note(post, "card_lost", card=card.name, message=self._pool.why_out(card))
        self._leave(post)
        self._end_shard(post)

    def _end_shard(self, post: Post) -> None:
        """What a post leaves undone waits for a card again, with what it had taken over from others."""
        self._dispatcher.end(post.shard)
        left = set(self._dispatcher.left_over()) & set(self._work.indexes)
        working = {one.shard for one in self._posts if not one.sick}
        if self._retries.waiting and not working:
            left.add(post.shard)
        served = working | {shard.index for shard in self._waiting} | self._reasons.keys()
        self._waiting += [self._work.shard(index) for index in sorted(left - served)]
        self._asked = None

    def _account(self, post: Post, job: Job, took_s: float | None = None) -> None:
        """Tell other hosts of a piece that nothing is left of to run, and of what it took."""
        if self._share is None:
            return
        self._share.wrote(post.attempt.journal)
        if job.why == "retry":
            return
        if took_s is not None:
            learnt = Learnt(
                shard=post.shard,
                file=job.piece.file,
                took_s=took_s,
                expected_s=self._dispatcher.expected_s(job),
                setup=job.setup,
            )
            self._share.learn(learnt)
        if not job.setup and post.ended.issuperset(job.piece.ids):
            self._share.accounted(job.of, job.piece)

    def _give_up(self, post: Post, pieces: Sequence[Piece], reason: str) -> None:
        if not pieces:
            return
        self._note(post, "not_run", ids=[name for piece in pieces for name in piece.ids], message=reason)
        if self._share is not None:
            for piece in pieces:
                self._share.give_up((post.shard, piece.number))

    def _look_after(self, post: Post) -> None:
        """Notice a worker that has ended, or has said nothing for too long."""
        code = post.link.process.poll()
        busy = post.job is not None or not post.ready
        if code is None and busy and time.monotonic() - post.heard > self._options.silence_s:
            post.link.process.kill()  # stuck in a driver, or stopped: its child's time-outs need it
            code = post.link.process.wait()
        if code is None:
            if post.check_at is not None and time.monotonic() >= post.check_at:
                post.check()
            return
        self._follow(post)
        if code == EXIT_UNWRITABLE:
            post.link.answers()  # its last word, where that was not heard yet
            if post.link.refused is not None:
                raise cannot_go_on(self._options.run_dir, post.link.refused)
        post.link.end()
        if post.sick or post.leaving:
            self._posts.remove(post)
            self._part(post)
        else:
            self._replace(post, code)

    def _part(self, post: Post) -> None:
        """A worker has ended: its cards are free, but for those that are out."""
        if not post.finished:
            self._note(post, "shard_end", status="done")
        self._release([card for card in post.cards if self._pool.is_out(card)])
        self._free += [card for card in post.cards[::-1] if not self._pool.is_out(card)]

    def _follow(self, post: Post) -> None:
        for event in post.link.events():
            post.heard = time.monotonic()
            post.take(event)
            self._learn(post, event)
            self._listen(post.attempt.shard, event)

    def _learn(self, post: Post, event: Event) -> None:
        bad = event.get("e") == "crash" or event.get("outcome") in {"failed", "hardware"}
        # One that was to fail and passed has been told apart already: another card says no more of it.
        if bad and not str(event.get("message")).startswith(XPASS_STRICT):
            self._failed(post, event["id"])

    def _failed(self, post: Post, name: str) -> None:
        self._retries.failed(
            name,
            file=self._work.file_of(name),
            of=self._work.shard_of(name),
            card=post.card.name,
            attempt=1 if post.job is None else post.job.attempt,
        )

    def _replace(self, lost: Post, code: int) -> None:
        """Account for a worker that went without a word, and let another do what is left."""
        said = f"died by {signal_name(-code)}" if code < 0 else f"ended with code {code}"
        running = lost.current
        self._note(lost, "worker_lost", id=running, message=f"the worker on {lost.card.name} {said}")
        if running is not None:
            lost.ended.add(running)
            self._failed(lost, running)
        if lost.job is not None:
            self._account(lost, lost.job)
        self._dispatcher.lost(lost.shard, lost.ended)
        self._note(lost, "shard_end", status="done")
        if lost.fault is not None and self._strike(lost, lost.fault):
            self._posts.remove(lost)
            self._end_shard(lost)
            self._part(lost)
            return
        if lost.restarts < self._options.worker_restarts:
            fresh = self._post(self._work.shard(lost.shard), lost.cards, lost.restarts + 1)
            self._posts[self._posts.index(lost)] = fresh
            return
        self._posts.remove(lost)
        self._lose(lost)

    def _lose(self, lost: Post) -> None:
        """A card is gone for this run: what is left of its shard is others' to do, if there are any."""
        self._dispatcher.end(lost.shard)
        log = f"logs/{lost.shard}-{lost.attempt.number}.log"
        reason = f"the shard's worker was lost {lost.restarts + 1} times; its log: {log}"
        self._reasons[lost.shard] = reason
        for card in lost.cards:
            self._pool.leave_out(card, reason)
        self._listen(lost.shard, {"e": "card_lost", "card": lost.card.name, "message": reason})
        self._release(lost.cards)

    def _give_up_the_rest(self) -> None:
        """Say of what nobody is left for why it was not run, or not run again."""
        for one in self._retries.waiting:
            # A test of another host's shard is told of in a journal of this one's.
            attempt = self._attempts.get(one.of) or next(iter(self._attempts.values()))
            self._write(attempt, "no_retry", ids=[one.id], message=NO_OTHER_CARD)
        lost = self._share.trouble if self._share is not None else ""
        for shard, ids in self._dispatcher.left_over().items():
            if shard not in self._work.indexes:
                continue  # another host's to tell of
            reason = f"not claimed: {lost}" if lost else self._reasons.get(shard) or self._no_card()
            attempt = self._attempt_at(shard)
            self._write(attempt, "not_run", ids=ids, message=reason)
            self._write(attempt, "shard_end", status="done")

    def _no_card(self) -> str:
        """Why there is no card."""
        lost = ", ".join(self._pool.lost)
        said = "; ".join(filter(None, [lost, self._pool.blockers()]))
        return f"{NO_CARD_LEFT}: {said}" if said else NO_CARD_LEFT

    def _stop(self) -> None:
        """Let every worker write its account, then end what is left."""
        for post in self._posts:
            post.link.process.terminate()
        deadline = time.monotonic() + self._options.grace_s
        while self._posts:
            post = self._posts.pop()
            with contextlib.suppress(subprocess.TimeoutExpired):
                post.link.process.wait(timeout=max(0.1, deadline - time.monotonic()))
            post.link.end()
            self._follow(post)
            if not post.finished:
                self._note(post, "shard_end", status="interrupted")

    def _note(self, post: Post, event: str, **content: Any) -> None:
        """Write what a worker that is gone can no longer write, or that nobody told it."""
        self._write(post.attempt, event, **content)
        self._follow(post)

    def _write(self, attempt: Attempt, event: str, **content: Any) -> None:
        try:
            with contextlib.closing(JournalWriter(attempt.journal, time.time)) as journal:
                journal.write(event, **content)
                journal.sync(now=event == "shard_end")
        except OSError as error:
            # A full disk, say: what no journal tells of is a hole in the account, and reddens the run.
            message = f"{attempt.journal}: {error}"
            self._listen(attempt.shard, {"e": "worker_lost", "id": None, "message": message})
