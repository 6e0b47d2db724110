"""The planner: nothing lost, near the bound, the same plan for the same work."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from test_selection.bound import longest_test, lower_bound
from test_selection.catalog import CatalogTest
from test_selection.errors import UsageError
from test_selection.loads import file_loads
from test_selection.pack import make_plan
from test_selection.plan import Plan

Work = tuple[list[CatalogTest], dict[str, float], dict[str, float]]


def make_work(files: Mapping[str, tuple[float, Sequence[float]]]) -> Work:
    """Tests, their seconds and their files' set-up, from file to (set-up, seconds of each test)."""
    tests, test_s = [], {}
    for file, (_, seconds) in files.items():
        for number, value in enumerate(seconds):
            name = f"{file}::test_{number:06}"
            tests.append(CatalogTest(id=name, node=name, file=file))
            test_s[name] = value
    return tests, test_s, {file: setup for file, (setup, _) in files.items()}


def plan_of(work: Work, shards: int) -> Plan:
    return make_plan(work[0], test_s=work[1], file_s=work[2], shards=shards)


def cost(ids: Sequence[str], work: Work) -> float:
    files = {name.partition("::")[0] for name in ids}
    return sum(work[1][name] for name in ids) + sum(work[2][file] for file in files)


seconds = st.sampled_from([0.0, 0.001, 0.5, 1.0, 2.0, 3.0]) | st.floats(0, 100)
works = st.dictionaries(
    st.sampled_from([f"f{n}.py" for n in range(12)]),
    st.tuples(seconds, st.lists(seconds, min_size=1, max_size=20)),
    max_size=8,
).map(make_work)


def test_a_plan_is_written_out_whole() -> None:
    work = make_work({"a.py": (2.0, [4.0, 4.0]), "b.py": (1.0, [1.0])})
    plan = plan_of(work, 2)
    assert [(one.index, one.expected_s) for one in plan.shards] == [(0, 8.0), (1, 6.0)]
    assert [group.file for group in plan.shards[0].groups] == ["a.py", "b.py"]
    assert [group.file for group in plan.shards[1].groups] == ["a.py"]
    assert plan.makespan_s == 8.0
    assert plan.bound_s == pytest.approx(7.0)
    assert plan.binds == "balance"


def test_groups_stand_by_file_and_ids_in_order_within() -> None:
    plan = plan_of(make_work({"b.py": (0.1, [1.0, 9.0, 3.0]), "a.py": (0.1, [1.0])}), 1)
    assert [group.file for group in plan.shards[0].groups] == ["a.py", "b.py"]
    assert plan.shards[0].groups[1].ids == ("b.py::test_000000", "b.py::test_000001", "b.py::test_000002")


@given(works, st.integers(1, 2048))
def test_shards_are_disjoint_and_make_up_the_selection(work: Work, shards: int) -> None:
    plan = plan_of(work, shards)
    assert len(plan.shards) == shards
    assert [one.index for one in plan.shards] == list(range(shards))
    assert sorted(plan.ids) == sorted(test.id for test in work[0])


@given(works, st.integers(1, 40))
def test_a_shard_is_expected_to_take_its_tests_and_each_files_set_up(work: Work, shards: int) -> None:
    plan = plan_of(work, shards)
    for shard in plan.shards:
        assert shard.expected_s == pytest.approx(cost(shard.ids, work))
        assert all(test.startswith(group.file + "::") for group in shard.groups for test in group.ids)
        assert len({group.file for group in shard.groups}) == len(shard.groups)
    assert plan.makespan_s == max(shard.expected_s for shard in plan.shards)


@given(works, st.integers(1, 40), st.randoms())
def test_the_order_of_the_tests_changes_nothing(work: Work, shards: int, rnd: random.Random) -> None:
    shuffled = list(work[0])
    rnd.shuffle(shuffled)
    test_s = dict(sorted(work[1].items(), reverse=True))
    file_s = dict(sorted(work[2].items(), reverse=True))
    assert make_plan(shuffled, test_s=test_s, file_s=file_s, shards=shards) == plan_of(work, shards)


@given(works, st.integers(1, 40))
def test_no_plan_ends_before_the_bound(work: Work, shards: int) -> None:
    plan = plan_of(work, shards)
    assert plan.bound_s <= plan.makespan_s
    assert plan.bound_s >= longest_test(file_loads(*work)) * (1 - 1e-9)
    assert plan.bound_s * shards >= cost([test.id for test in work[0]], work) * (1 - 1e-6)


def best_split(work: Work, shards: int) -> float:
    """The shortest makespan of all splits, by trying each."""
    ids = [test.id for test in work[0]]
    best = cost(ids, work)

    def go(at: int, bins: list[list[str]]) -> None:
        nonlocal best
        if max((cost(one, work) for one in bins), default=0.0) >= best:
            return
        if at == len(ids):
            best = max(cost(one, work) for one in bins)
            return
        for number in range(min(len(bins) + 1, shards)):
            grown = [*bins, []] if number == len(bins) else [list(one) for one in bins]
            grown[number].append(ids[at])
            go(at + 1, grown)

    go(0, [])
    return best


small_files = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0, 3.0]), st.lists(st.floats(0.01, 10), min_size=1, max_size=4)),
    min_size=1,
    max_size=3,
)


@given(small_files, st.integers(2, 4))
def test_a_small_plan_is_within_a_third_of_the_best_there_is(
    files: list[tuple[float, list[float]]], shards: int
) -> None:
    assume(sum(len(one) for _, one in files) <= 8)
    work = make_work({f"f{number}.py": one for number, one in enumerate(files)})
    best = best_split(work, shards)
    assert lower_bound(file_loads(*work), shards) <= best * (1 + 1e-9)
    assert plan_of(work, shards).makespan_s <= best * 4 / 3 * (1 + 1e-9)


def drawn(seed: int, files: int, tests: int, setup: float) -> Work:
    """Files of random size and tests of log-normal seconds, as measured ones are."""
    rnd = random.Random(seed)  # noqa: S311  # made-up seconds, no secret
    rows: dict[str, tuple[float, list[float]]] = {
        f"f{n:03}.py": (setup * rnd.random(), []) for n in range(files)
    }
    for _ in range(tests):
        name = f"f{int(files * rnd.random() ** 2):03}.py"
        rows[name][1].append(rnd.lognormvariate(0, 1))
    return make_work({name: row for name, row in rows.items() if row[1]})


@pytest.mark.parametrize(
    ("files", "tests", "setup", "shards"),
    [(1, 2000, 2.0, 30), (20, 2000, 2.0, 30), (20, 8000, 4.0, 100), (100, 8000, 1.0, 60)],
)
def test_many_tests_are_packed_within_a_hundredth_of_the_bound(
    files: int, tests: int, setup: float, shards: int
) -> None:
    work = drawn(files, files, tests, setup)
    plan = plan_of(work, shards)
    assert longest_test(file_loads(*work)) < plan.bound_s / 2
    assert plan.makespan_s <= 1.01 * plan.bound_s


def measured_like(
    seed: int, files: int, tests: int, setups: Sequence[float], part: float
) -> tuple[Work, int]:
    """Tests of log-normal seconds, and so many shards that each is five longest tests long or more."""
    rnd = random.Random(seed)  # noqa: S311  # made-up seconds, no secret
    rows = [(rnd.choice(setups), [rnd.lognormvariate(0, 1)]) for _ in range(files)]
    shares = [rnd.paretovariate(1.2) for _ in range(files)]
    for row in rnd.choices(range(files), shares, k=tests):
        rows[row][1].append(rnd.lognormvariate(0, 1))
    longest = max(setup + max(times) for setup, times in rows)
    total = sum(setup + sum(times) for setup, times in rows)
    work = make_work({f"f{number:03}.py": row for number, row in enumerate(rows)})
    return work, max(1, int(total / longest / 5 * part))


@given(
    st.integers(0, 2**32),
    st.sampled_from([1, 3, 20, 150, 700]),
    st.sampled_from([2000, 3000]),
    st.sampled_from([(0.0,), (0.5,), (2.0,), (15.0,), (0.0, 2.0), (0.5, 2.0, 5.0, 15.0, 30.0)]),
    st.floats(0.05, 1),
)
def test_from_two_thousand_tests_on_a_plan_is_near_its_bound(
    seed: int, files: int, tests: int, setups: Sequence[float], part: float
) -> None:
    work, shards = measured_like(seed, files, tests, setups, part)
    plan = plan_of(work, shards)
    assume(longest_test(file_loads(*work)) < plan.bound_s / 5)
    # The bound counts no cut that only the sizes of the files beside it make necessary. Spread over the
    # shards of a plan with few files, that is less than half a set-up each.
    assert plan.makespan_s <= 1.01 * plan.bound_s + max(setups) / 2


def all_alike(
    seed: int, size: tuple[int, int], setups: Sequence[float], lengths: tuple[float, float]
) -> Work:
    """Files of about the same size, tests of two lengths or of lengths between them."""
    rnd = random.Random(seed)  # noqa: S311  # made-up seconds, no secret
    files, tests = size
    between = rnd.random() < 0.5
    rows: list[tuple[float, list[float]]] = [(rnd.choice(setups), []) for _ in range(files)]
    for number in range(tests):
        one = rnd.uniform(*lengths) if between else rnd.choice(lengths)
        rows[number % files][1].append(one)
    return make_work({f"f{number:03}.py": row for number, row in enumerate(rows)})


@given(
    st.integers(0, 2**32),
    st.tuples(st.sampled_from([1, 7, 40, 90, 300]), st.sampled_from([2000, 6000])),
    st.sampled_from([(0.0,), (0.5,), (5.0,), (15.0,), (0.0, 5.0, 20.0)]),
    st.sampled_from([1, 3, 24, 40]),
    st.sampled_from([(1.0, 1.0), (1.0, 3.0), (0.99, 1.01), (2.4, 3.6)]),
)
def test_tests_and_files_that_are_all_alike_are_near_the_bound_too(
    seed: int, size: tuple[int, int], setups: Sequence[float], shards: int, lengths: tuple[float, float]
) -> None:
    work = all_alike(seed, size, setups, lengths)
    plan = plan_of(work, shards)
    longest = longest_test(file_loads(*work))
    assume(longest < plan.bound_s / 5)
    # The bound cuts a test at any second. Where all are alike, no shorter one fills the gap of that cut.
    assert plan.makespan_s <= 1.01 * plan.bound_s + longest


def test_a_file_bigger_than_a_shard_is_cut_and_pays_its_set_up_twice() -> None:
    plan = plan_of(make_work({"a.py": (10.0, [1.0] * 100)}), 2)
    assert [shard.expected_s for shard in plan.shards] == [60.0, 60.0]
    assert plan.bound_s == pytest.approx(60.0)


def test_small_files_stay_whole() -> None:
    plan = plan_of(make_work({f"f{n}.py": (5.0, [1.0] * 10) for n in range(40)}), 10)
    files = [group.file for shard in plan.shards for group in shard.groups]
    assert len(files) == len(set(files)) == 40
    assert plan.makespan_s == plan.bound_s == 60.0


@pytest.mark.parametrize(
    ("files", "shards", "binds"),
    [
        ({}, 3, "nothing"),
        ({"a.py": (0.0, [0.0, 0.0])}, 2, "longest test"),
        ({"a.py": (1.0, [50.0, 1.0, 1.0])}, 3, "longest test"),
        ({"a.py": (5.0, [0.01] * 100), "b.py": (5.0, [0.01] * 100)}, 1, "set-up"),
        ({"a.py": (1.0, [1.0] * 100)}, 4, "balance"),
        ({"a.py": (1.0, [50.0])}, 1, "balance"),
    ],
)
def test_what_binds_a_plan_is_named(
    files: dict[str, tuple[float, list[float]]], shards: int, binds: str
) -> None:
    assert plan_of(make_work(files), shards).binds == binds


def test_more_shards_than_tests_leave_empty_ones_at_the_end() -> None:
    plan = plan_of(make_work({"a.py": (1.0, [3.0, 2.0])}), 5)
    assert [len(shard.ids) for shard in plan.shards] == [1, 1, 0, 0, 0]
    assert plan.shards[4].groups == ()
    assert plan.shards[4].expected_s == 0.0


def test_an_empty_selection_gives_empty_shards() -> None:
    plan = plan_of(make_work({}), 3)
    assert [shard.groups for shard in plan.shards] == [(), (), ()]
    assert plan.makespan_s == plan.bound_s == 0.0


def test_zero_seconds_and_zero_set_up_are_planned() -> None:
    plan = plan_of(make_work({"a.py": (0.0, [0.0] * 5), "b.py": (0.0, [0.0])}), 2)
    assert len(plan.ids) == 6
    assert plan.makespan_s == 0.0


def test_what_nobody_timed_is_given_a_guess() -> None:
    tests = [CatalogTest(id="a.py::t", node="", file="a.py")]
    assert make_plan(tests, test_s={}, file_s={}, shards=1).makespan_s == 0.05


@pytest.mark.parametrize("shards", [0, -1])
def test_fewer_than_one_shard_is_refused(shards: int) -> None:
    with pytest.raises(UsageError, match=f"cannot plan for {shards} shards") as caught:
        make_plan([], test_s={}, file_s={}, shards=shards)
    assert "ask for 1 shard or more" in str(caught.value)


def test_equal_work_has_an_equal_fingerprint_and_other_work_another() -> None:
    prints = [
        plan_of(make_work({"a.py": (1.0, [float(n)] * 5)}), shards).fingerprint
        for n, shards in itertools.product((1, 2), (1, 2))
    ]
    assert prints[0] == prints[2]
    assert len(set(prints)) == 2
