"""Times: what machines and noise explain is no finding; what they do not is one."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.report.compare.machines import FALSE_ALARMS, Machines, Pair, machines_of
from ci.report.compare.times import LEAST_S, Past, Times, compare_times, with_history


def world(
    number: int,
    seed: int,
    *,
    ratio: float = 1.3,
    uneven: float = 0.15,
    files: int = 20,
    cards: int = 4,
    noise: float = 0.1,
) -> list[Pair]:
    """Tests that did not change, on two machines that are differs and whose cards are not either."""
    rng = random.Random(seed)  # noqa: S311  # the same each time
    there, here = ([math.exp(rng.gauss(0, uneven)) for _ in range(cards)] for _ in range(2))
    made = []
    for place in range(number):
        seconds = math.exp(rng.gauss(-1, 1.5))
        now, base = rng.randrange(cards), rng.randrange(cards)
        made.append(
            Pair(
                f"test_{place % files}.py::test_{place}",
                f"test_{place % files}.py",
                seconds * ratio * here[now] * math.exp(rng.gauss(0, noise)) + rng.uniform(0, 0.002),
                seconds * there[base] * math.exp(rng.gauss(0, noise)) + rng.uniform(0, 0.002),
                f"card {now}",
                f"card {base}",
            )
        )
    return made


def slowed(pairs: Sequence[Pair], chosen: Sequence[str], times: float) -> list[Pair]:
    return [one._replace(now_s=one.now_s * times) if one.name in chosen else one for one in pairs]


def long_ones(pairs: Sequence[Pair], number: int, least_s: float = 2.0) -> list[str]:
    return [one.name for one in pairs if least_s <= one.base_s < 8][:number]


def test_on_two_uneven_machines_nothing_is_found_where_nothing_changed() -> None:
    """Over many comparisons, the findings are within what is said of them."""
    rounds = 60
    found = [compare_times(world(400, seed), world(30, seed + 1, cards=1)) for seed in range(rounds)]
    alarms = sum(len(one.tests) + len(one.files) + len(one.setup_files) for one in found)
    assert alarms <= FALSE_ALARMS * rounds


def test_the_slowness_of_a_whole_run_is_told_and_no_test_is_blamed_for_it() -> None:
    times = compare_times(world(1_000, 1, ratio=2.0, uneven=0.0))
    assert times.machines.ratio == pytest.approx(2.0, rel=0.02)
    assert times.machines.tests > 900
    assert times.tests == ()


def test_a_card_that_is_slow_is_told_and_its_tests_are_not_blamed_for_it() -> None:
    pairs = [
        one._replace(now_s=one.now_s * 3) if one.now_card == "card 1" else one
        for one in world(1_000, 2, uneven=0.0)
    ]
    times = compare_times(pairs)
    cards = times.machines.cards_now
    assert cards["card 1"] / cards["card 0"] == pytest.approx(3, rel=0.1)
    assert times.tests == ()


def test_a_card_that_ran_one_file_alone_is_not_told_from_that_file() -> None:
    pairs = [
        one._replace(now_card=one.file, now_s=one.now_s * (3 if one.file == "test_1.py" else 1))
        for one in world(1_000, 3, uneven=0.0)
    ]
    times = compare_times(pairs)
    assert times.machines.cards_now == {}
    assert [one.name for one in times.files] == ["test_1.py"]


def test_tests_that_take_longer_are_found_among_all_that_vary() -> None:
    pairs = world(2_000, 4)
    chosen = long_ones(pairs, 4)
    times = compare_times(slowed(pairs, chosen, 4))
    assert {one.name for one in times.slower} == set(chosen)
    assert times.faster == ()
    assert all(one.now_s > one.limit_s > one.expected_s for one in times.slower)
    assert [one.more_s for one in times.slower] == sorted((one.more_s for one in times.slower), reverse=True)


def test_tests_that_take_less_are_found_as_well() -> None:
    pairs = world(2_000, 5)
    chosen = long_ones(pairs, 3)
    times = compare_times(slowed(pairs, chosen, 0.2))
    assert {one.name for one in times.faster} == set(chosen)
    assert times.slower == ()
    assert all(one.now_s < one.limit_s < one.expected_s for one in times.faster)


def test_a_file_that_is_slow_as_a_whole_is_told_once() -> None:
    pairs = world(2_000, 6, uneven=0.0)
    times = compare_times(slowed(pairs, [one.name for one in pairs if one.file == "test_7.py"], 3))
    assert [one.name for one in times.files] == ["test_7.py"]
    assert times.files[0].tests == 100
    assert times.tests == ()


def test_a_test_beyond_its_slow_file_is_told_beside_it() -> None:
    pairs = world(2_000, 6, uneven=0.0)
    inside = [one for one in pairs if one.file == "test_7.py"]
    chosen = long_ones(inside, 1)
    times = compare_times(slowed(slowed(pairs, [one.name for one in inside], 3), chosen, 5))
    assert [one.name for one in times.files] == ["test_7.py"]
    assert [one.name for one in times.slower] == chosen


def test_set_ups_of_files_are_looked_at_by_themselves() -> None:
    files = [Pair(f"test_{n}.py", f"test_{n}.py", 2 + n / 10, 2 + n / 10) for n in range(20)]
    files[3] = files[3]._replace(now_s=9.0)
    times = compare_times([], files)
    assert [one.name for one in times.setup_files] == ["test_3.py"]
    assert times.setups == 20
    assert times.setup_ratio == 1.0


@pytest.mark.parametrize(("seconds", "found"), [(0.9, 1), (0.7, 0)])
def test_what_is_off_by_a_little_does_not_count_however_sure_it_is(seconds: float, found: int) -> None:
    pairs = [Pair(f"a.py::t{n}", "a.py", 0.3, 0.3) for n in range(300)]
    pairs[7] = pairs[7]._replace(now_s=seconds)
    assert len(compare_times(pairs).slower) == found


def test_short_tests_are_no_finding_whatever_their_ratio() -> None:
    pairs = [Pair(f"a.py::t{n}", "a.py", 0.0005 * (1 + n % 700), 0.0005) for n in range(300)]
    assert compare_times(pairs).tests == ()


def test_of_few_tests_nobody_knows_what_is_noise() -> None:
    few = [Pair(f"a.py::t{n}", "a.py", 100.0 if n == 3 else 1.0, 1.0) for n in range(9)]
    assert compare_times(few) == compare_times(few)
    assert compare_times(few).too_few
    assert compare_times(few).tests == ()
    enough = [*few, *(one._replace(name=f"{one.name}x", now_s=1.0) for one in few)]
    assert [one.name for one in compare_times(enough).slower] == ["a.py::t3"]


def test_a_test_that_always_varied_so_much_is_no_news() -> None:
    pairs = world(2_000, 9)
    wild, tame, unknown = long_ones(pairs, 3)
    times = compare_times(slowed(pairs, [wild, tame, unknown], 4))
    assert len(times.slower) == 3
    past = {
        wild: Past(2.0, 3.0, 9.0, 10),
        tame: Past(2.9, 3.0, 3.2, 10),
        unknown: Past(1.0, 3.0, 30.0, 2),
    }
    settled = with_history(times, past)
    assert {one.name for one in settled.slower} == {tame, unknown}
    assert settled.steady == 1


def test_what_past_runs_took_already_is_no_news_on_a_machine_that_is_slower() -> None:
    pairs = world(2_000, 12, ratio=2.0, uneven=0.0)
    (chosen,) = long_ones(pairs, 1)
    for factor in (6.0, 1 / 6):
        times = compare_times(slowed(pairs, [chosen], factor))
        (found,) = times.tests
        # There it took half as long, as all did; so no deviation excuses it, and past runs do.
        there = found.now_s / 2.0
        usual = Past(there * 0.95, there, there * 1.05, 10)
        assert with_history(times, {chosen: usual}).tests == ()
        tight = Past(3.99, 4, 4.01, 10)
        assert with_history(times, {chosen: tight}).tests == (found,)


def test_without_anything_to_compare_nothing_is_said() -> None:
    assert compare_times([]) == Times()
    assert machines_of([]) == Machines()


seconds = st.floats(min_value=0.0005, max_value=1e6)


@given(
    st.lists(
        st.tuples(seconds, seconds, st.sampled_from(("", "0", "1")), st.sampled_from("abcd")), max_size=60
    )
)
def test_whatever_times_there_are_the_other_way_round_all_is_reversed(
    rows: list[tuple[float, float, str, str]],
) -> None:
    pairs = [
        Pair(f"{file}.py::{n}", f"{file}.py", now, base, card)
        for n, (now, base, card, file) in enumerate(rows)
    ]
    there = compare_times(pairs)
    for one in (*there.tests, *there.files):
        assert math.isfinite(one.expected_s)
        assert abs(one.more_s) >= LEAST_S
    back = machines_of([one._replace(now_s=one.base_s, base_s=one.now_s) for one in pairs])
    assert there.machines.ratio * back.ratio == pytest.approx(1)
