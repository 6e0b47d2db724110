"""What nobody timed is estimated by the nearest thing that was, and the estimate says by what."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from test_selection.catalog import Catalog, CatalogTest, FileRecord
from test_selection.durations import Durations
from test_selection.estimates import (
    UNKNOWN_TEST_S,
    Estimate,
    Source,
    estimate,
    estimate_files,
    estimate_tests,
    file_timeouts,
    how_estimated,
    quantile,
)
from test_selection.estimates import test_timeouts as timeouts_of_tests
from test_selection.ids import canonical_id, parse_id

ids = st.builds(
    canonical_id,
    st.sampled_from(["a.py", "b/c.py"]),
    st.sampled_from(["", "T", "U", "T::V"]),
    st.sampled_from(["test_x", "test_y"]),
    st.dictionaries(
        st.sampled_from(["op", "dtype", "k", "xdtype"]), st.sampled_from(["add", "float32", "int8", "a=[,]b"])
    ),
)
seconds = st.floats(0, 1e6)


def case(name: str) -> CatalogTest:
    file, cls, template, params = parse_id(name)
    return CatalogTest(
        id=name,
        node="",
        file=file,
        cls=cls,
        template=template,
        op=params.get("op"),
        dtype=params.get("dtype"),
    )


def one(name: str, **tables: dict[str, float]) -> Estimate:
    return estimate([case(name)], Durations(**tables))[name]


def test_a_measured_test_takes_its_own_time_and_spread() -> None:
    found = one("a.py::T::t", tests={"a.py::T::t": 2.0, "a.py::T::u": 9.0}, spread={"a.py::T::t": 3.0})
    assert found == Estimate(seconds=2.0, source=Source.MEASURED, spread=3.0)


def test_a_spread_below_the_median_counts_as_none() -> None:
    assert one("a.py::t", tests={"a.py::t": 2.0}, spread={"a.py::t": 1.0}).spread == 2.0


def test_the_same_test_with_another_dtype_is_the_next_best() -> None:
    known = {
        "a.py::T::t[dtype=int8,op=add]": 1.0,
        "a.py::T::t[dtype=int16,op=add]": 3.0,
        "a.py::T::t[dtype=int8,op=mul]": 50.0,
        "b.py::T::t[dtype=int8,op=add]": 70.0,
    }
    found = one("a.py::T::t[dtype=float32,op=add]", tests=known)
    assert found == Estimate(seconds=2.0, source=Source.DTYPE, spread=3.0)


def test_each_source_is_asked_before_the_next() -> None:
    wanted = "a.py::T::t[dtype=int8,op=add]"
    nearest = {
        Source.MEASURED: wanted,
        Source.DTYPE: "a.py::T::t[dtype=int16,op=add]",
        Source.TEMPLATE: "a.py::T::t[dtype=int8,op=mul]",
        Source.CLASS: "a.py::T::u",
        Source.OP: "b.py::U::v[op=add]",
        Source.FILE: "a.py::V::w",
        Source.ALL: "b.py::W::w",
    }
    known = {name: float(number) for number, name in enumerate(nearest.values(), start=1)}
    for number, source in enumerate(nearest, start=1):
        assert one(wanted, tests=known) == Estimate(seconds=number, source=source, spread=number)
        del known[nearest[source]]


def test_a_file_nobody_ran_is_like_the_usual_file_not_like_the_largest() -> None:
    known = {f"big.py::t{number}": 50.0 for number in range(9)} | {"b.py::t": 1.0, "c.py::t": 3.0}
    assert one("new.py::t", tests=known) == Estimate(seconds=3.0, source=Source.ALL, spread=50.0)


def test_a_module_is_a_source_like_an_op_and_no_op_of_that_name() -> None:
    known = {"b.py::T::t[module=nn.ReLU]": 1.0, "b.py::T::t[op=nn.ReLU]": 9.0}
    assert one("a.py::T::t[k=1,module=nn.ReLU]", tests=known).seconds == 1.0
    assert one("a.py::T::t[op=nn.ReLU]", tests=known).seconds == 9.0


def test_a_plain_function_has_no_class() -> None:
    assert one("a.py::t", tests={"a.py::u": 1.0, "a.py::T::x": 3.0}).source is Source.FILE
    assert one("a.py::t", classes={"a.py": 9.0}).source is Source.GUESS


def test_a_parameter_whose_name_ends_in_dtype_is_no_dtype() -> None:
    known = {"a.py::T::t[dtype=int8,xdtype=int8]": 1.0, "a.py::T::t[dtype=int8,xdtype=int16]": 5.0}
    assert one("a.py::T::t[dtype=int16,xdtype=int16]", tests=known).seconds == 5.0


def test_without_any_time_each_test_takes_the_same_guess() -> None:
    found = one("a.py::t")
    assert found == Estimate(seconds=UNKNOWN_TEST_S, source=Source.GUESS, spread=UNKNOWN_TEST_S)


def test_a_class_measured_elsewhere_is_shared_by_all_its_tests_in_the_catalog() -> None:
    catalog = [case(f"a.py::T::t{number}") for number in range(8)]
    durations = Durations(classes={"a.py::T": 4.0})
    found = estimate(catalog[:2], durations, among=catalog)
    assert found == dict.fromkeys(
        ["a.py::T::t0", "a.py::T::t1"], Estimate(seconds=0.5, source=Source.PRIOR, spread=0.5)
    )


def test_what_is_in_no_prior_takes_the_median_of_what_is() -> None:
    tests = [case("a.py::T::t"), case("a.py::U::t"), case("b.py::t")]
    found = estimate(tests, Durations(classes={"a.py::T": 4.0, "a.py::U": 2.0}))
    assert found["b.py::t"] == Estimate(seconds=3.0, source=Source.ALL, spread=4.0)


def test_what_is_measured_here_beats_the_prior() -> None:
    found = one("a.py::T::t", tests={"a.py::U::x": 1.0}, classes={"a.py::T": 90.0})
    assert found == Estimate(seconds=1.0, source=Source.FILE, spread=1.0)


def test_a_file_takes_its_measured_set_up_before_its_collection() -> None:
    files = {"a": FileRecord(collect_s=1.0), "b": FileRecord(collect_s=2.0)}
    catalog = Catalog(pytorch="p", device="d", files=files)
    assert estimate_files(catalog, Durations(files={"a": 5.0, "z": 9.0})) == {"a": 5.0, "b": 2.0}


def test_sources_are_counted() -> None:
    found = estimate([case("a.py::t"), case("a.py::u"), case("b.py::t")], Durations(tests={"a.py::t": 1.0}))
    assert how_estimated(found) == {Source.MEASURED: 1, Source.FILE: 1, Source.ALL: 1}


def test_tests_may_come_from_an_iterator() -> None:
    assert estimate_tests(iter([case("a::1")]), Durations(tests={"a::1": 7.0})) == {"a::1": 7.0}


@given(st.lists(seconds, min_size=1, max_size=50), st.integers(1, 1000))
def test_a_quantile_is_a_value_that_enough_do_not_exceed(values: list[float], thousandths: int) -> None:
    found = quantile(values, thousandths / 1000)
    assert found in values
    assert sum(value <= found for value in values) * 1000 >= thousandths * len(values)
    assert sum(value < found for value in values) * 1000 < thousandths * len(values)


@given(
    st.lists(ids, max_size=12, unique=True),
    st.dictionaries(ids, seconds),
    st.dictionaries(ids, seconds),
    st.dictionaries(st.sampled_from(["a.py::T", "a.py", "b/c.py::U"]), seconds),
    st.randoms(use_true_random=False),
)
def test_every_test_gets_one_estimate_whatever_the_order(
    names: list[str],
    known: dict[str, float],
    spread: dict[str, float],
    classes: dict[str, float],
    shuffler: random.Random,
) -> None:
    tests = [case(name) for name in names]
    found = estimate(tests, Durations(tests=known, spread=spread, classes=classes))
    assert list(found) == names
    assert all(0 <= each.seconds <= each.spread for each in found.values())
    assert all(found[name].seconds == known[name] for name in names if name in known)
    assert all((each.source is Source.MEASURED) == (name in known) for name, each in found.items())
    assert {name: each.seconds for name, each in found.items()} == estimate_tests(
        tests, Durations(tests=known, classes=classes)
    )

    def shuffled(table: dict[str, float]) -> dict[str, float]:
        return {name: table[name] for name in shuffler.sample(sorted(table), len(table))}

    shuffler.shuffle(tests)
    mixed = Durations(tests=shuffled(known), spread=shuffled(spread), classes=shuffled(classes))
    assert estimate(tests, mixed) == found
    # One by one, too: who else is asked for changes no estimate that rests on measurements.
    if known and not classes:
        assert {name: estimate([test], mixed)[test.id] for test in tests for name in [test.id]} == found


estimates = st.dictionaries(
    st.builds("{}::{}".format, st.sampled_from(["a.py", "b/c.py", "d%3Ae.py"]), st.integers(0, 9)),
    st.builds(
        lambda seconds, source, more: Estimate(seconds=seconds, source=source, spread=seconds + more),
        st.floats(0, 1e6),
        st.sampled_from(Source),
        st.floats(0, 1e6),
    ),
)


def took(spread: float, source: Source = Source.MEASURED) -> Estimate:
    return Estimate(seconds=0.0, source=source, spread=spread)


def test_it_is_a_multiple_of_the_slowest_tests_95th_percentile() -> None:
    found = file_timeouts({"a::1": took(2.0), "a::2": took(7.01)}, factor=10, floor_s=60, ceiling_s=600)
    assert found == {"a": 71}


def test_a_slow_test_estimated_beside_measured_ones_counts() -> None:
    mixed = {"a::1": took(2.0), "a::2": took(30.0, Source.OP)}
    assert file_timeouts(mixed, factor=10, floor_s=60, ceiling_s=600) == {"a": 300}


def test_a_file_nobody_measured_keeps_the_runners_time_out() -> None:
    others = {f"{source}::1": took(1.0, source) for source in Source if source is not Source.MEASURED}
    assert file_timeouts(others, factor=10, floor_s=60, ceiling_s=600) == {}


def test_a_floor_above_the_ceiling_gives_way() -> None:
    assert file_timeouts({"a::1": took(1.0)}, factor=10, floor_s=60, ceiling_s=20) == {"a": 20}


def test_files_are_named_as_plans_name_them() -> None:
    assert file_timeouts({"a%3Ab.py::T::t": took(1.0)}, factor=1, floor_s=5, ceiling_s=9) == {"a:b.py": 5}


@given(estimates, st.floats(1, 100), st.randoms())
def test_every_time_out_lies_between_floor_and_ceiling_whatever_the_order(
    found: dict[str, Estimate], factor: float, random: object
) -> None:
    timeouts = file_timeouts(found, factor=factor, floor_s=60, ceiling_s=600)
    assert all(60 <= seconds <= 600 for seconds in timeouts.values())
    assert list(timeouts) == sorted(timeouts)
    names = list(found)
    getattr(random, "shuffle")(names)  # noqa: B009  # hypothesis hands over an untyped random
    again = file_timeouts({name: found[name] for name in names}, factor=factor, floor_s=60, ceiling_s=600)
    assert again == timeouts
    for name, expected in found.items():
        if (seconds := timeouts.get(name.partition("::")[0])) is not None and seconds < 600:
            assert seconds >= factor * expected.spread


def test_a_test_has_a_multiple_of_its_own_slowest_times_within_floor_and_ceiling() -> None:
    spread = {"quick": 0.01, "slow": 7.02, "slowest": 500.0}
    found = timeouts_of_tests(spread, factor=10, floor_s=30, ceiling_s=600)
    assert found == {"quick": 30, "slow": 71, "slowest": 600}
