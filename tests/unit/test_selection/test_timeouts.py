"""A file's time-out follows its slowest test, between a floor and a ceiling."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from test_selection.durations import Estimate, Source
from test_selection.timeouts import file_timeouts
from test_selection.timeouts import test_timeouts as timeouts_of_tests

estimates = st.dictionaries(
    st.builds("{}::{}".format, st.sampled_from(["a.py", "b/c.py", "d%3Ae.py"]), st.integers(0, 9)),
    st.builds(
        lambda seconds, source, more: Estimate(seconds=seconds, source=source, spread=seconds + more),
        st.floats(0, 1e6),
        st.sampled_from(Source),
        st.floats(0, 1e6),
    ),
)


def one(spread: float, source: Source = Source.MEASURED) -> Estimate:
    return Estimate(seconds=0.0, source=source, spread=spread)


def test_it_is_a_multiple_of_the_slowest_tests_95th_percentile() -> None:
    found = file_timeouts({"a::1": one(2.0), "a::2": one(7.01)}, factor=10, floor_s=60, ceiling_s=600)
    assert found == {"a": 71}


def test_a_slow_test_estimated_beside_measured_ones_counts() -> None:
    mixed = {"a::1": one(2.0), "a::2": one(30.0, Source.OP)}
    assert file_timeouts(mixed, factor=10, floor_s=60, ceiling_s=600) == {"a": 300}


def test_a_file_nobody_measured_keeps_the_runners_time_out() -> None:
    others = {f"{source}::1": one(1.0, source) for source in Source if source is not Source.MEASURED}
    assert file_timeouts(others, factor=10, floor_s=60, ceiling_s=600) == {}


def test_a_floor_above_the_ceiling_gives_way() -> None:
    assert file_timeouts({"a::1": one(1.0)}, factor=10, floor_s=60, ceiling_s=20) == {"a": 20}


def test_files_are_named_as_plans_name_them() -> None:
    assert file_timeouts({"a%3Ab.py::T::t": one(1.0)}, factor=1, floor_s=5, ceiling_s=9) == {"a:b.py": 5}


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
    for name, estimate in found.items():
        if (seconds := timeouts.get(name.partition("::")[0])) is not None and seconds < 600:
            assert seconds >= factor * estimate.spread


def test_a_test_has_a_multiple_of_its_own_slowest_times_within_floor_and_ceiling() -> None:
    spread = {"quick": 0.01, "slow": 7.02, "slowest": 500.0}
    found = timeouts_of_tests(spread, factor=10, floor_s=30, ceiling_s=600)
    assert found == {"quick": 30, "slow": 71, "slowest": 600}
