from __future__ import annotations

import fcntl
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import FileSystemError
from ci.runner.health import HealthFiles, Rules
from ci.runner.inventory import Card
from ci.runner.leases import SETTLE_S, Leases
from ci.runner.pool import KEEP_S, CardPool, at_fault

RULES = Rules(strikes=2, bench_s=100)


class Host:
    """A host with emulated cards, a folder of leases and a clock of its own."""

    def __init__(self, folder: Path, cards: int) -> None:
        self.folder = folder
        self.cards = [Card(name=f"emulated:{index}", environment={}) for index in range(cards)]
        self.now = 1_000.0
        self.said: list[str] = []

    def pool(self, run: str = "r", wanted: int | None = None) -> CardPool:
        return CardPool(
            self.cards,
            wanted=wanted,
            leases=Leases(self.folder, run=run, clock=lambda: self.now),
            health=HealthFiles(folder=self.folder, rules=RULES),
            run=run,
            clock=lambda: self.now,
            say=self.said.append,
        )


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path, 3)


def names(cards: list[Card]) -> list[str]:
    return [card.name for card in cards]


def test_two_runs_never_hold_the_same_card(host: Host) -> None:
    one, two = host.pool("one"), host.pool("two")
    assert names(one.take(2)) == ["emulated:0", "emulated:1"]
    assert names(two.take(3)) == ["emulated:2"]
    assert two.may_have(1, leasable=True)
    assert "emulated:0 is in use by run one" in two.blockers()
    one.release(host.cards[1])
    assert names(two.take(3)) == ["emulated:1"]
    one.close()
    assert names(two.take(3)) == ["emulated:0"]


def test_a_run_holds_no_more_than_it_wants(host: Host) -> None:
    pool = host.pool(wanted=2)
    assert pool.size == 2
    assert len(pool.take(3)) == 2
    assert pool.take(1) == []


def test_nobody_holds_a_part_while_it_waits_for_the_rest(host: Host) -> None:
    one, two = host.pool("one"), host.pool("two")
    one.take(2)
    assert two.take(3, least=2) == []
    two.close()
    assert names(one.take(1)) == ["emulated:2"]


def test_who_did_not_get_enough_is_before_those_who_ask_later(host: Host) -> None:
    narrow, wide, wider, late = (host.pool(run) for run in ("narrow", "wide", "wider", "late"))
    narrow.take(2)
    assert wide.take(2, least=2) == []
    assert wider.take(3, least=3) == []
    # One is free, and is for the wide one: who needs one would take each as it comes free.
    for _ in range(3):
        assert late.take(1) == []
    assert "emulated:2 is for run wide (process " in late.blockers()
    assert "needs 2 at once and came first" in late.blockers()
    narrow.release(host.cards[0])
    assert late.take(1) == []
    assert wider.take(3, least=3) == []
    assert names(wide.take(2, least=2)) == ["emulated:0", "emulated:2"]
    narrow.close()
    assert late.take(1) == []
    wide.close()
    assert late.take(1) == []
    assert len(wider.take(3, least=3)) == 3
    wider.close()
    assert names(late.take(1)) == ["emulated:0"]


def test_who_waits_for_other_cards_or_asks_no_more_or_is_gone_is_before_nobody(host: Host) -> None:
    every, late = host.pool("every"), host.pool("late")
    every.take(2)
    others = CardPool(
        [*host.cards[:1], Card(name="emulated:9", environment={})],
        leases=Leases(host.folder, run="others", clock=lambda: host.now),
        run="others",
        clock=lambda: host.now,
    )
    assert others.take(2, least=2) == []
    assert names(late.take(1)) == ["emulated:2"]
    late.close()
    wide = host.pool("wide")
    assert wide.take(3, least=3) == []
    assert late.take(1) == []
    host.now += 16  # it was stopped, or what it waited for is done elsewhere
    assert names(late.take(1)) == ["emulated:2"]
    late.close()
    assert wide.take(3, least=3) == []
    assert late.take(1) == []
    wide.close()
    assert names(late.take(1)) == ["emulated:2"]


def test_who_lacks_what_no_other_run_has_keeps_nobody_waiting(host: Host) -> None:
    greedy, late = host.pool("greedy", wanted=2), host.pool("late")
    greedy.take(2)
    assert greedy.take(1) == []
    assert greedy.take(9, least=9) == []
    assert len(late.take(1)) == 1


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"cards": "emulated:2"}', b"\xff", b'{"cards": [3]}']
)
def test_strange_tickets_keep_nobody_waiting(host: Host, content: bytes) -> None:
    path = host.folder / "1.ticket"
    path.write_bytes(content)
    (host.folder / "x.ticket").write_bytes(content)
    (host.folder / "2.ticket").mkdir()
    with path.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        late = host.pool("late")
        assert len(late.take(3)) == 3
        # And it can draw one beside them.
        assert host.pool("later").take(1) == []
    late.close()


def test_a_ticket_of_a_run_that_was_killed_is_thrown_away(host: Host) -> None:
    row = {"run": "dead", "pid": 1, "least": 1, "cards": ["emulated:0"], "seen": host.now}
    (host.folder / "7.ticket").write_text(json.dumps(row))
    assert names(host.pool().take(1)) == ["emulated:0"]
    assert not (host.folder / "7.ticket").exists()


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=6), st.lists(st.integers(0, 5), min_size=1, max_size=60)
)
def test_nobody_waits_for_ever_and_nobody_holds_a_part(
    tmp_path_factory: pytest.TempPathFactory, needs: list[int], turns: list[int]
) -> None:
    host = Host(tmp_path_factory.mktemp("leases"), 3)
    runs = [host.pool(f"r{number}") for number in range(len(needs))]
    held: dict[int, list[Card]] = {}
    asked: dict[int, None] = {}
    for one in (turn % len(needs) for turn in turns):
        if one in held:
            give_back(runs[one], held.pop(one))
        elif cards := runs[one].take(needs[one], least=needs[one]):
            assert len(cards) == needs[one]
            assert next(iter(asked), one) == one  # all want the same cards: the first is first
            held[one] = cards
            asked.pop(one, None)
        else:
            asked[one] = None
    for one, cards in held.items():
        give_back(runs[one], cards)
    for one in asked:
        cards = runs[one].take(needs[one], least=needs[one])
        assert len(cards) == needs[one]
        give_back(runs[one], cards)
    for pool in runs:
        pool.close()


def give_back(pool: CardPool, cards: list[Card]) -> None:
    for card in cards:
        pool.release(card)


def test_a_benched_card_is_left_out_by_this_run_and_the_next_until_its_bench_is_over(host: Host) -> None:
    pool = host.pool()
    card = pool.take(1)[0]
    assert not pool.strike(card, "RAS::PCI::BusFence", certain=True)
    assert pool.strike(card, "RAS::PCI::BusFence", certain=True)
    assert pool.is_out(card)
    assert pool.left == 2
    pool.close()
    later = host.pool("later")
    assert names(later.take(3)) == ["emulated:1", "emulated:2"]
    assert "out of use until" in later.why_none()
    assert "RAS::PCI::BusFence" in later.why_none()
    later.close()
    host.now += 101
    assert len(host.pool("even later").take(3)) == 3


def test_strikes_of_several_runs_add_up(host: Host) -> None:
    for number in (1, 2):
        pool = host.pool(f"run {number}")
        (card,) = pool.take(1)
        assert pool.strike(card, "sick", certain=True) == (number == 2)
        pool.close()


def test_a_fault_that_may_be_the_softwares_is_kept_from_no_other_run(host: Host) -> None:
    pool = host.pool()
    for card in pool.take(3):
        assert not pool.strike(card, "AttributeError", certain=False)
        assert pool.strike(card, "AttributeError", certain=False)
    assert not pool.may_have(1, leasable=True)
    assert pool.left == 0
    assert "given up for this run after 2 faults: AttributeError" in pool.why_none()
    pool.close()
    assert len(host.pool("next").take(3)) == 3


def test_where_another_card_is_well_it_is_not_the_software(host: Host) -> None:
    pool = host.pool()
    sick, well, _ = pool.take(3)
    pool.passed([sick, well])
    pool.strike(sick, "hung", certain=False)
    pool.strike(sick, "hung", certain=False)
    pool.close()
    assert names(host.pool("next").take(3)) == ["emulated:1", "emulated:2"]


def test_a_fault_of_one_of_several_cards_benches_none_of_them_for_other_runs(host: Host) -> None:
    pool = host.pool()
    cards = pool.take(2)
    for card in cards:
        assert not pool.strike(card, "RAS::PCI::BusFence", certain=True, known=False)
        assert pool.strike(card, "RAS::PCI::BusFence", certain=True, known=False)
    assert pool.left == 1
    pool.close()
    assert len(host.pool("next").take(3)) == 3


def test_a_card_to_avoid_is_not_taken(host: Host) -> None:
    pool = host.pool(wanted=1)
    assert names(pool.take(1, avoid={"emulated:0"})) == ["emulated:1"]
    assert not pool.may_have(1, avoid={"emulated:0", "emulated:2"})
    assert pool.may_have(1, avoid={"emulated:0"})
    assert not pool.may_have(2)  # it wants one at once


def test_a_health_file_that_cannot_be_read_costs_the_card_nothing_but_its_past(host: Host) -> None:
    (host.folder / "emulated:0.health.json").write_text("{")
    pool = host.pool()
    assert len(pool.take(3)) == 3
    assert sum("earlier faults of card emulated:0 do not count" in line for line in host.said) == 1
    pool.strike(host.cards[0], "sick", certain=True)
    assert HealthFiles(folder=host.folder, rules=RULES).read("emulated:0", host.now).strikes


def test_a_strike_that_cannot_be_kept_counts_for_this_run(host: Host) -> None:
    pool = host.pool()
    (card,) = pool.take(1)
    (host.folder / "emulated:0.health.json").mkdir()
    assert not pool.strike(card, "sick", certain=True)
    assert pool.strike(card, "sick", certain=True)
    assert any("cannot be recorded" in line for line in host.said)


def test_who_waits_says_so_now_and_then(host: Host) -> None:
    one, two = host.pool("one"), host.pool("two")
    one.take(3)
    for moment in (0.0, 1.0, 59.0, 60.0):
        two.tell_waiting(moment)
    assert len(host.said) == 2
    assert host.said[0].startswith("waiting for a card: emulated:0 is in use by run one (process ")


def test_without_leases_all_cards_are_ones_own(host: Host) -> None:
    pool = CardPool(host.cards)
    assert len(pool.take(5)) == 3
    assert not pool.may_have(1, leasable=True)
    assert pool.descriptors(host.cards) == ()
    assert pool.blockers() == ""


def test_a_card_that_nobody_holds_is_blamed_on_nobody(host: Host) -> None:
    one, two = host.pool("one"), host.pool("two")
    taken = one.take(2)
    one.release(taken[1])
    assert one.blockers() == ""
    assert "emulated:0 is in use by run one" in two.blockers()
    assert "emulated:1" not in two.blockers()
    # What a run wrote that is dead by now is no word on who holds it.
    (host.folder / "emulated:2.lease").write_text('{"pid": 1, "run": "dead", "user": "x", "since": 1}')
    assert one.blockers() == ""
    one.close()
    two.tell_waiting(0.0)
    assert host.said == []


def test_who_holds_a_card_and_has_not_said_so_is_told_of(host: Host) -> None:
    one, two = host.pool("one"), host.pool("two")
    one.take(1)
    (host.folder / "emulated:0.lease").write_text("")
    assert two.blockers() == "emulated:0 is in use by an unknown run"
    one.take(2)
    assert two.blockers().count("is in use by") == 3


def lose(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.touch()


def test_a_lease_that_cannot_be_taken_is_no_card_now_and_is_told_once(tmp_path: Path) -> None:
    host = Host(tmp_path / "l", 3)
    pool = host.pool()
    (held,) = pool.take(1)
    lose(host.folder)
    for _ in range(2):
        assert pool.take(1) == []
    assert [line for line in host.said if line.startswith("no more cards for now: ")] == host.said
    assert len(host.said) == 1
    assert "\n" not in host.said[0]
    assert isinstance(pool.trouble, FileSystemError)
    assert "leases of cards cannot be kept here" in pool.blockers()
    # It may come to be had, yet nothing says that it is worth waiting for.
    assert pool.may_have(2)
    assert not pool.may_have(1, leasable=True)
    host.folder.unlink()
    pool.keep(0.0)
    assert pool.take(1) == []  # others lock theirs anew first
    assert "cannot be kept" not in pool.blockers()
    assert pool.may_have(1, leasable=True)
    host.now += SETTLE_S
    assert len(pool.take(3)) == 2
    pool.release(held)


def test_a_run_that_can_lease_some_cards_takes_those(host: Host) -> None:
    (host.folder / "emulated:1.lease").mkdir()
    pool = host.pool()
    assert names(pool.take(3)) == ["emulated:0", "emulated:2"]
    assert pool.trouble is not None
    assert not pool.may_have(1, leasable=True)


def test_a_run_without_a_card_does_not_tell_of_trouble_it_ends_with(tmp_path: Path) -> None:
    host = Host(tmp_path / "l", 3)
    pool = host.pool()
    lose(host.folder)
    assert pool.take(3) == []
    assert pool.trouble is not None
    assert host.said == []


def test_leases_are_looked_after_now_and_then(host: Host) -> None:
    one, two = host.pool("one"), host.pool("two")
    one.take(1)
    one.keep(0.0)
    (host.folder / "emulated:0.lease").unlink()
    one.keep(KEEP_S / 2)
    assert names(two.take(1)) == ["emulated:0"]
    for moment in (KEEP_S, 2 * KEEP_S, 3 * KEEP_S):
        one.keep(moment)
    assert len(host.said) == 1
    assert host.said[0].startswith("card emulated:0 is used by two runs: ")
    two.close()
    one.keep(4 * KEEP_S)
    assert "emulated:0" not in names(two.take(3))


@pytest.mark.parametrize(
    ("said", "times", "stuck", "out"),
    [
        ("emulated:1 failed", 2, False, {"emulated:1"}),
        ("something failed", 1, False, set()),
        ("something failed", 1, True, {"emulated:0", "emulated:1"}),
    ],
)
def test_of_several_cards_the_one_that_is_named_is_struck_and_those_that_are_stuck_are_out(
    host: Host, said: str, times: int, stuck: bool, out: set[str]
) -> None:
    pool = CardPool(host.cards, rules=Rules(strikes=2))
    cards = pool.take(2)
    found = [pool.fault(cards, said, certain=True, stuck=stuck) for _ in range(times)]
    assert found[-1] is bool(out)
    assert {card.name for card in cards if pool.is_out(card)} == out


def test_of_several_cards_the_one_that_is_named_is_at_fault() -> None:
    cards = [Card(name=f"emulated:{number}", environment={}) for number in (1, 10, 11)]
    assert at_fault(cards, 'RAS {"Device":"emulated:10","name":"RAS::X"}') == [cards[1]]
    assert at_fault(cards, "card message: x (card emulated:1)") == [cards[0]]
    assert at_fault(cards, "emulated:1, and emulated:11.") == [cards[0], cards[2]]
    assert at_fault(cards, "took longer than 5 s on emulated:111") == cards
    assert at_fault(cards[:1], "whatever") == cards[:1]
    address = [Card(name=f"0000:{one}:00.0", environment={}) for one in ("1a", "2e")]
    assert at_fault(address, "Device 0000:2e:00.0 failed") == [address[1]]
    assert at_fault(address, "Device 0000:2e:00.01 failed") == address
