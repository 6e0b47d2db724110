"""Shares over a store in memory: who gets a piece, when a host is dead, and days with random deaths."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.runner.claims.session import ClaimSession
from ci.runner.claims.table import Heartbeat, Key, read_heartbeat
from test_selection.pieces import Piece

from .stores import Memory, MemoryStore

LEASE_S = 10.0


@dataclass(slots=True)
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class Hall:
    """Hosts with one store; their clocks begin anywhere."""

    memory: Memory = field(default_factory=Memory)
    said: list[str] = field(default_factory=list)

    def join(
        self, me: str, clock: Clock, former: Collection[str] = (), again: Collection[Key] = ()
    ) -> tuple[ClaimSession, MemoryStore]:
        store = MemoryStore(self.memory, me)
        share = ClaimSession(
            store, me=me, clock=clock, lease_s=LEASE_S, look_s=1.0, say=self.said.append,
            former=former, again=again,
        )  # fmt: skip
        return share, store


def piece(number: int) -> Piece:
    return Piece(file="a.py", ids=(str(number),), expected_s=1.0, number=number)


def test_one_of_two_gets_a_piece_and_asks_no_store_for_it_twice() -> None:
    hall, clock = Hall(), Clock()
    (a, _), (b, _) = hall.join("a", clock), hall.join("b", clock)
    assert (a.claim(0, piece(1)), b.claim(0, piece(1))) == (1, 0)
    asked = hall.memory.puts
    assert (a.claim(0, piece(1)), b.claim(0, piece(1))) == (1, 0)
    assert hall.memory.puts == asked


def test_what_others_took_and_what_is_done_is_free_to_nobody() -> None:
    hall, clock = Hall(), Clock()
    (a, _), (b, _) = hall.join("a", clock), hall.join("b", clock)
    assert a.claim(0, piece(1))
    assert a.claim(0, piece(2))
    a.done((0, 2))
    a.exchange()
    assert b.exchange()
    assert not b.exchange()  # not before it is time again
    assert [b.free((0, number)) for number in (1, 2, 3)] == [False, False, True]
    assert [a.holds((0, number)) for number in (1, 2, 3)] == [True, False, False]


def test_what_a_silent_host_had_is_free_after_a_lease_and_what_it_had_done_is_not() -> None:
    hall, clock = Hall(), Clock()
    (a, _), (b, _) = hall.join("a", clock), hall.join("b", clock)
    for number in (1, 2):
        assert a.claim(0, piece(number))
    a.done((0, 2))
    a.exchange()
    for _ in range(14):
        b.exchange()
        assert b.free((0, 1)) == (clock.now > LEASE_S)
        assert not b.free((0, 2))
        clock.now += 1
    assert b.claim(0, piece(1)) == 2
    assert b.claim(0, piece(2)) == 0


def test_who_leaves_is_followed_at_once() -> None:
    hall, clock = Hall(), Clock()
    (a, store), (b, _) = hall.join("a", clock), hall.join("b", clock)
    assert a.claim(0, piece(1))
    assert b.claim(0, piece(1)) == 0
    a.leave()
    assert store.closed
    assert b.exchange()
    assert b.free((0, 1))
    assert b.claim(0, piece(1)) == 2


def test_who_comes_late_gives_a_dead_host_a_lease_first() -> None:
    hall, clock = Hall(), Clock()
    a, _ = hall.join("a", clock)
    assert a.claim(0, piece(1))
    a.exchange()
    clock.now = 1000.0
    b, _ = hall.join("b", clock)
    assert b.claim(0, piece(1)) == 0
    for second in range(13):
        assert b.claim(0, piece(1)) == (2 if second > LEASE_S + 1 else 0)
        clock.now += 1
        b.exchange()


def test_who_was_cut_off_holds_nobody_dead_for_it() -> None:
    hall, clock = Hall(), Clock()
    (a, _), (b, _) = hall.join("a", clock), hall.join("b", clock)
    assert a.claim(0, piece(1))
    a.exchange()
    b.exchange()
    clock.now += 5 * LEASE_S
    assert b.exchange()
    assert not b.free((0, 1))
    assert b.claim(0, piece(1)) == 0


def test_while_the_store_is_lost_nothing_is_claimed_and_what_was_claimed_goes_on() -> None:
    hall, clock = Hall(), Clock()
    a, store = hall.join("a", clock)
    assert a.claim(0, piece(1)) == 1
    store.lost = True
    assert a.claim(0, piece(2)) == 0
    assert a.claim(0, piece(1)) == 1
    assert a.trouble
    assert a.waits()
    assert len(hall.said) == 1
    assert "what was claimed goes on" in hall.said[0]
    store.lost = False
    clock.now += 3
    assert a.exchange()
    assert a.free((0, 2))
    assert not a.trouble
    assert a.claim(0, piece(2)) == 1
    assert "is back" in hall.said[1]


def test_a_store_that_stays_away_is_waited_for_as_long_as_a_lease() -> None:
    hall, clock = Hall(), Clock()
    a, store = hall.join("a", clock)
    store.lost = True
    assert a.claim(0, piece(2)) == 0
    clock.now += LEASE_S - 0.1
    assert not a.exchange()
    assert a.waits()
    clock.now += 0.2
    assert not a.waits()
    a.leave()
    assert a.free((0, 2))


def test_a_claim_whose_answer_got_lost_is_found_to_be_ones_own() -> None:
    hall, clock = Hall(), Clock()
    a, store = hall.join("a", clock)
    store.mute = True
    assert a.claim(0, piece(1)) == 0
    store.mute = False
    clock.now += 3
    assert a.exchange()
    assert a.free((0, 1))
    assert a.claim(0, piece(1)) == 1


def test_a_claim_that_names_nobody_is_one_of_a_host_that_died_at_it() -> None:
    hall, clock = Hall(), Clock()
    hall.memory.kept["0/1.1"] = ""
    a, _ = hall.join("a", clock)
    assert a.claim(0, piece(1)) == 0
    assert not a.free((0, 1))
    for _ in range(14):
        clock.now += 1
        a.exchange()
    assert a.claim(0, piece(1)) == 2


def test_two_stay_for_the_one_that_works_and_the_others_go() -> None:
    hall, clock = Hall(), Clock()
    shares = {name: hall.join(name, clock)[0] for name in "abcde"}
    assert shares["e"].claim(0, piece(1))
    for _ in range(2):
        for share in shares.values():
            share.exchange()
        clock.now += 3
    assert [name for name, share in shares.items() if share.waits()] == ["a", "b"]
    shares["e"].done((0, 1))
    for _ in range(2):
        for share in shares.values():
            share.exchange()
        clock.now += 3
    assert not any(share.waits() for share in shares.values())


def test_who_is_resumed_finishes_what_it_had_told_done_and_what_anybody_gave_up() -> None:
    hall, clock = Hall(), Clock()
    (a, _), (b, _) = hall.join("a", clock), hall.join("b", clock)
    for number in (1, 2, 3, 4):
        assert a.claim(0, piece(number))
    assert b.claim(0, piece(5))
    assert b.claim(0, piece(6))
    for number in (1, 2):
        a.done((0, number))
    a.give_up((0, 3))
    b.give_up((0, 5))
    b.done((0, 6))
    for share in (a, b):
        share.exchange()
    # Of the second and the fourth its journals hold every outcome.
    again = {(0, number) for number in (1, 3, 5, 6)}
    late, _ = hall.join("a2", clock, former={"a"}, again=again)
    assert [late.claim(0, piece(number)) for number in (1, 3, 5, 6, 2)] == [2, 2, 2, 0, 0]
    # To those who were there all the time, nothing is free that was done or given up.
    clock.now += 3
    b.exchange()
    assert [b.claim(0, piece(number)) for number in (1, 3, 5, 6)] == [0, 0, 0, 0]


def test_who_is_resumed_waits_for_none_of_its_own_that_died() -> None:
    hall, clock = Hall(), Clock()
    a, _ = hall.join("a", clock)
    assert a.claim(0, piece(1))
    a.exchange()
    late, _ = hall.join("a2", clock, former={"a"}, again={(0, 1)})
    assert late.exchange()
    assert late.free((0, 1))
    assert late.claim(0, piece(1)) == 2
    later, _ = hall.join("a3", clock, former={"a", "a2"}, again={(0, 1)})
    assert later.claim(0, piece(1)) == 3
    later.done((0, 1))
    last, _ = hall.join("a4", clock, former={"a", "a2"}, again={(0, 1)})
    later.exchange()
    assert last.claim(0, piece(1)) == 0


def told_by(hall: Hall) -> list[tuple[tuple[Key, ...], tuple[Key, ...]]]:
    """What was said to be done, and given up, line by line."""
    said = [read_heartbeat(line) for _, line in hall.memory.said]
    return [(one.done, one.given_up) for one in said if one is not None]


def test_a_piece_is_done_with_the_last_outcome_and_one_without_any_given_up_at_the_end(
    tmp_path: Path,
) -> None:
    hall, clock = Hall(), Clock()
    a, _ = hall.join("a", clock)
    first, second = tmp_path / "0-1.jsonl", tmp_path / "0-2.jsonl"
    for path in (first, second):
        path.touch()
    assert a.claim(0, Piece(file="a.py", ids=("a", "b"), expected_s=1.0, number=1))
    for number in (2, 3):
        assert a.claim(0, piece(number))
        a.accounted((0, number))
    a.ended(["a", "unknown"], first)
    a.exchange()
    clock.now += 3
    a.ended(["b", "b"], second)
    a.ended(["3"], second)  # run again after its worker was lost
    a.exchange()
    a.leave()
    assert told_by(hall) == [((), ()), (((0, 1), (0, 3)), ()), ((), ((0, 2),))]


def test_journals_are_synced_once_a_second_at_most_and_before_anything_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr("ci.runner.claims.session.bring_to_disk", synced.append)
    hall, clock = Hall(), Clock()
    a, _ = hall.join("a", clock)
    journal = tmp_path / "0-1.jsonl"
    journal.touch()
    for number in range(20):
        clock.now = number / 10
        assert a.claim(0, piece(number))
        a.ended([str(number)], journal)
        a.waits()
    assert len(synced) == 2
    a.exchange()
    assert [len(done) for done, _ in told_by(hall)] == [11]


@pytest.mark.parametrize("broken", ["gone", "refused"])
def test_what_is_not_on_the_disk_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    hall, clock = Hall(), Clock()
    a, _ = hall.join("a", clock)
    whole, lost = tmp_path / "0-1.jsonl", tmp_path / "1-1.jsonl"
    whole.touch()
    for number, journal in ((1, whole), (2, lost)):
        assert a.claim(0, piece(number))
        a.ended([str(number)], journal)
    with monkeypatch.context() as patch:
        if broken == "refused":
            lost.touch()

            def refuse(descriptor: int) -> None:
                if os.path.samestat(os.fstat(descriptor), lost.stat()):
                    raise OSError(5, "Input/output error")

            patch.setattr("ci.runner.claims.session.bring_to_disk", refuse)
        a.exchange()
    lost.touch()
    clock.now += 3
    a.exchange()
    assert [done for done, _ in told_by(hall)] == [((0, 1),), ((0, 2),)]


@given(st.permutations("abcdef"))
def test_in_whatever_order_outcomes_come_a_piece_is_done_once_and_not_before(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    hall, clock = Hall(), Clock()
    a, _ = hall.join("a", clock)
    journal = tmp_path_factory.mktemp("journal") / "0-1.jsonl"
    journal.touch()
    pieces = {(0, 0): {"a", "b"}, (1, 0): {"c"}, (2, 7): {"d", "e", "f"}}
    for (shard, number), ids in pieces.items():
        assert a.claim(shard, Piece(file="a.py", ids=tuple(ids), expected_s=1.0, number=number))
    seen: set[str] = set()
    for name in names:
        a.ended([name], journal)
        seen.add(name)
        clock.now += 3
        a.exchange()
        done = [key for keys, _ in told_by(hall) for key in keys]
        assert sorted(done) == sorted(key for key, ids in pieces.items() if ids <= seen)


def test_what_may_be_lost_with_the_disk_is_left_to_the_others(tmp_path: Path) -> None:
    hall, clock = Hall(), Clock()
    (a, _), (b, _) = hall.join("a", clock), hall.join("b", clock)
    assert a.claim(0, piece(1))
    a.accounted((0, 1))
    a.ended(["1"], tmp_path / "deleted.jsonl")
    a.leave()
    b.exchange()
    assert b.claim(0, piece(1)) == 2


@pytest.mark.parametrize("deleted", [False, True])
def test_two_that_keep_pieces_without_an_outcome_do_not_wait_for_each_other(
    tmp_path: Path,
    deleted: bool,
) -> None:
    hall, clock = Hall(), Clock()
    shares = [hall.join(name, clock)[0] for name in "ab"]
    for number, share in enumerate(shares):
        assert share.claim(0, piece(number))
        assert share.claim(0, piece(number + 2))
        share.accounted((0, number))
        journal = tmp_path / f"{number}-1.jsonl"
        if not deleted:
            journal.touch()
        share.ended([str(number + 2)], journal)
        share.accounted((0, number + 2))
    for share in (*shares, *shares):
        clock.now += 3
        share.exchange()
    left: set[str] = set()
    for _ in range(100):
        clock.now += 0.5
        for share in shares:
            if share.me not in left:
                share.exchange()
                if not share.waits():
                    share.leave()
                    left.add(share.me)
    assert left == {"a", "b"}


def test_a_line_of_an_earlier_version_gives_nothing_up() -> None:
    row = json.loads(Heartbeat(done=((0, 1),)).line())
    del row["given_up"]
    assert read_heartbeat(json.dumps(row)) == Heartbeat(done=((0, 1),))


def test_strange_lines_of_others_are_passed_over() -> None:
    hall, clock = Hall(), Clock()
    a, _ = hall.join("a", clock)
    lines = ["", "{", "[]", "null", '{"claims": [[0, -1, 1]]}', '{"claims": 7}', "\x00", '{"done": [["a"]]}']
    hall.memory.said += [("b", line) for line in lines]
    assert a.exchange()
    assert a.claim(0, piece(0)) == 1
    hall.memory.said += [("\n::error::x", "{"), ("", "{")]
    clock.now += 3
    a.exchange()
    assert hall.said == ["the share contains lines that are not understood and are skipped, the first of 'b'"]
    assert not a.waits()


@dataclass(slots=True)
class Host:
    """A host of a day on paper: one card, a queue of all pieces, and what it is at."""

    share: ClaimSession
    store: MemoryStore
    clock: Clock
    queue: dict[tuple[int, int], None]
    doing: tuple[tuple[int, int], int] | None = None
    alive: bool = True
    paused_until: float = 0.0


@dataclass(slots=True)
class Day:
    """A day: hosts take turns in a random order; some die, leave, stop for a while or lose the store."""

    rng: random.Random
    pieces: int
    trouble: bool
    goes_home: bool = False
    dies_at: int = -1
    hall: Hall = field(default_factory=Hall)
    hosts: list[Host] = field(default_factory=list)
    began: list[tuple[tuple[int, int], int]] = field(default_factory=list)
    ended: set[tuple[int, int]] = field(default_factory=set)
    now: float = 0.0

    def arrive(self) -> None:
        clock = Clock(self.now + 1000.0 * len(self.hosts))
        share, store = self.hall.join(f"h{len(self.hosts)}", clock)
        queue = dict.fromkeys((number % 3, number) for number in range(self.pieces))
        self.hosts.append(Host(share, store, clock, queue))

    def look(self, host: Host) -> bool:
        """Take what is others' out of a host's queue and put in what is free; whether anything was."""
        found = False
        for number in range(self.pieces):
            key = number % 3, number
            if host.share.free(key) and key not in host.queue:
                host.queue[key] = None
                found = True
            elif not host.share.free(key):
                host.queue.pop(key, None)
        return found

    def turn(self, host: Host) -> None:
        if host.share.exchange():
            self.look(host)
        if host.doing is not None:
            if self.rng.random() < 0.5:
                key, _ = host.doing
                self.ended.add(key)
                host.share.done(key)
                host.doing = None
            return
        if not host.queue:
            if self.goes_home and not host.share.waits() and not self.look(host):
                host.share.leave()
                host.alive = False
            return
        key = self.rng.choice(list(host.queue))
        del host.queue[key]
        if time := host.share.claim(key[0], piece(key[1])):
            self.began.append((key, time))
            host.doing = key, time

    def disturb(self, host: Host) -> None:
        match self.rng.randrange(5):
            case 0 if sum(one.alive for one in self.hosts) > 1:
                host.alive = False
            case 1 if sum(one.alive for one in self.hosts) > 1:
                host.share.leave()
                host.alive = False
            case 2:
                host.paused_until = self.now + self.rng.uniform(0, 3 * LEASE_S)
            case 3:
                host.store.lost = not host.store.lost
            case _:
                host.store.mute = not host.store.mute

    def run(self, hosts: int) -> None:
        for _ in range(hosts):
            self.arrive()
        for step in range(100 * self.pieces):
            self.now += self.rng.uniform(0, 1.5)
            ready = [one for one in self.hosts if one.alive and one.paused_until <= self.now]
            for number, one in enumerate(self.hosts):
                one.clock.now = self.now + 1000.0 * number
            for host in self.rng.sample(ready, len(ready)):
                self.turn(host)
                if step == self.dies_at and sum(one.alive for one in self.hosts) > 1:
                    host.alive, self.dies_at = False, -1
                if self.trouble and step < 20 * self.pieces and self.rng.random() < 0.03:
                    self.disturb(host)
            if step == 20 * self.pieces:
                for one in self.hosts:
                    one.store.lost = one.store.mute = False
            if len(self.ended) == self.pieces and not any(one.doing for one in ready):
                return


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 12))
def test_without_trouble_every_piece_is_run_once(seed: int, hosts: int, pieces: int) -> None:
    day = Day(random.Random(seed), pieces, trouble=False)  # noqa: S311  # a seeded day
    day.run(hosts)
    assert len(day.ended) == pieces
    assert Counter(time for _, time in day.began) == {1: pieces}


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 12))
def test_however_hosts_die_no_piece_is_lost_and_none_is_run_twice_unmarked(
    seed: int, hosts: int, pieces: int
) -> None:
    day = Day(random.Random(seed), pieces, trouble=True)  # noqa: S311  # a seeded day
    day.run(hosts)
    assert len(day.ended) == pieces
    # Whoever runs a piece that another may have begun knows it, and says the how manieth time it is.
    assert max(Counter(day.began).values()) == 1


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 12), st.integers(-1, 60))
def test_one_death_costs_nothing_though_hosts_with_nothing_to_do_go_home(
    seed: int, hosts: int, pieces: int, dies_at: int
) -> None:
    day = Day(random.Random(seed), pieces, trouble=False, goes_home=True, dies_at=dies_at)  # noqa: S311  # a seeded day
    day.run(hosts)
    assert len(day.ended) == pieces
    assert max(Counter(day.began).values()) == 1
