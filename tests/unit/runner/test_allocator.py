"""Which shard gets which cards, and when a run waits for one that another run holds."""

from __future__ import annotations

import os
from pathlib import Path

from ci.runner.allocator import CardAllocator
from ci.runner.inventory import Card
from ci.runner.leases import Leases
from ci.runner.pool import CardPool
from ci.runner.retries import Retry
from test_selection.plan import Shard


def shards(*cards: int) -> list[Shard]:
    return [Shard(index=index, expected_s=1, groups=(), cards=count) for index, count in enumerate(cards)]


class Host:
    """Cards of one host, and a clock."""

    def __init__(self, folder: Path, cards: int) -> None:
        self.cards = [Card(name=f"emulated:{number}", environment={}) for number in range(cards)]
        self.folder, self.now = folder, 0.0

    def pool(self, run: str = "r") -> CardPool:
        return CardPool(self.cards, leases=Leases(self.folder, run=run, clock=lambda: self.now))

    def allocator(self, pool: CardPool, *cards: int) -> CardAllocator:
        return CardAllocator(pool, shards(*cards), lease_timeout_s=60, clock=lambda: self.now)


def given(allocator: CardAllocator) -> list[tuple[int, list[str]]]:
    return [(shard.index, [card.name for card in cards]) for shard, cards in allocator.give_out()]


def again(*avoid: str, cards: int = 1) -> Retry:
    return Retry(id="a", file="a.py", of=0, attempt=2, avoid=frozenset(avoid), cards=cards)


def test_a_wide_shard_that_waits_lets_no_narrow_one_pass(tmp_path: Path) -> None:
    host = Host(tmp_path, 2)
    pool, other = host.pool(), host.pool("other")
    (held,) = other.take(1)
    allocator = host.allocator(pool, 2, 1)
    assert given(allocator) == []
    assert allocator.waits()
    other.release(held)
    host.now += 2
    assert given(allocator) == [(0, ["emulated:0", "emulated:1"])]
    assert [shard.index for shard in allocator.waiting] == [1]


def test_a_shard_that_can_never_have_its_cards_makes_room(tmp_path: Path) -> None:
    host = Host(tmp_path, 2)
    pool = host.pool()
    pool.leave_out(host.cards[0], "sick")
    allocator = host.allocator(pool, 2, 1)
    assert given(allocator) == [(1, ["emulated:1"])]
    assert not allocator.waiting


def test_a_run_waits_for_a_card_no_longer_than_it_may(tmp_path: Path) -> None:
    host = Host(tmp_path, 1)
    other = host.pool("other")
    other.take(1)
    allocator = host.allocator(host.pool(), 1)
    assert given(allocator) == []
    assert allocator.waits()
    host.now = 61
    assert not allocator.waits()


def test_a_card_that_is_out_is_let_go_and_the_others_are_used_again(tmp_path: Path) -> None:
    host = Host(tmp_path, 2)
    pool = host.pool()
    allocator = host.allocator(pool, 1, 1)
    ((_, first), (_, second)) = list(allocator.give_out())
    pool.leave_out(first[0], "sick")
    allocator.wait_again({0, 7})  # the other is another host's
    allocator.take_back([*first, *second])
    assert given(allocator) == [(0, [second[0].name])]


def test_a_shard_that_cost_two_cards_or_waits_already_does_not_wait_again(tmp_path: Path) -> None:
    host = Host(tmp_path, 1)
    allocator = host.allocator(host.pool(), 1, 1, 1)
    ((shard, cards),) = list(allocator.give_out())
    for waits in ([1, 2, 0], [1, 2]):
        allocator.lost(shard.index, "its worker was lost", wide=False)
        allocator.wait_again({0, 1})
        assert [one.index for one in allocator.waiting] == waits
        allocator.take_back(cards)
        if 0 in waits:
            allocator.waiting.remove(shard)
    assert allocator.reasons == {0: "its worker was lost"}
    allocator.lost(1, "its cards", wide=True)
    allocator.waiting.clear()
    allocator.wait_again({1, 2})
    assert [one.index for one in allocator.waiting] == [2]


def test_a_test_runs_again_on_a_card_it_has_not_failed_on(tmp_path: Path) -> None:
    host = Host(tmp_path, 3)
    allocator = host.allocator(host.pool())
    found = allocator.for_retry([again("emulated:0", "emulated:1", "emulated:2"), again("emulated:0")])
    assert found is not None
    assert [card.name for card in found[1]] == ["emulated:1"]
    assert allocator.for_retry([again("emulated:0", cards=3)]) is None


def test_a_test_that_no_card_is_left_for_costs_the_run_no_turn(tmp_path: Path) -> None:
    host = Host(tmp_path, 2)
    other = host.pool("other")
    other.take(2)
    pool = host.pool()
    allocator = host.allocator(pool)
    hopeless = again("emulated:0", "emulated:1")
    for order in ([again("emulated:0"), hopeless], [hopeless, again("emulated:0")]):
        host.now += 2
        assert allocator.for_retry(order) is None
        assert list(tmp_path.glob("*.ticket"))


def test_a_card_that_something_holds_for_ever_stays_leased(tmp_path: Path) -> None:
    host = Host(tmp_path, 1)
    pool = host.pool()
    (card,) = pool.take(1)
    (stuck,) = (os.dup(one) for one in pool.descriptors([card]))  # a process that nobody can end
    host.allocator(pool).abandon([card], "it hangs")
    pool.close()
    assert pool.is_out(card)
    other = host.pool("other")
    assert other.take(1) == []
    os.close(stuck)
    assert len(other.take(1)) == 1


def test_a_retry_is_worth_waiting_for_only_where_a_card_may_come_free(tmp_path: Path) -> None:
    host = Host(tmp_path, 2)
    other = host.pool("other")
    other.take(2)
    allocator = host.allocator(host.pool())
    assert allocator.for_retry([again("emulated:0")]) is None
    assert allocator.waits_to_retry([again("emulated:0")])
    assert not allocator.waits_to_retry([again("emulated:0", "emulated:1")])
    assert not allocator.waits_to_retry([])
    host.now = 61
    assert not allocator.waits_to_retry([again("emulated:0")])


def test_nobody_waits_for_cards_that_cannot_be_leased(tmp_path: Path) -> None:
    host = Host(tmp_path / "l", 2)
    pool = host.pool()
    allocator = host.allocator(pool, 1)
    host.folder.rmdir()
    host.folder.touch()
    assert given(allocator) == []
    assert not allocator.waits()
    host.now += 2
    assert allocator.for_retry([again("emulated:0")]) is None
    assert not allocator.waits_to_retry([again("emulated:0")])
    host.folder.unlink()
    host.now += 2
    assert allocator.for_retry([again("emulated:0")]) is None
    assert allocator.waits_to_retry([again("emulated:0")])
    host.now += 6
    assert allocator.for_retry([again("emulated:0")]) is not None
