from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ci.report.compare.machines import Pair
from ci.report.compare.page import MARGIN, MAX_POINTS, SIZE, scatter
from ci.report.compare.times import Times, compare_times

seconds = st.floats(min_value=0.0005, max_value=1e8)


def test_without_tests_that_passed_in_both_nothing_is_drawn() -> None:
    assert scatter(Times()) is None


@given(st.lists(st.tuples(seconds, seconds), min_size=1, max_size=30))
def test_every_point_stands_within_the_axes_and_the_ticks_lead_from_end_to_end(
    rows: list[tuple[float, float]],
) -> None:
    pairs = [Pair(f"a.py::t{n}", "a.py", now, base) for n, (now, base) in enumerate(rows)]
    drawing = scatter(compare_times(pairs))
    assert drawing is not None
    assert len(drawing.points) + drawing.hidden == len(pairs)
    places = [value for one in drawing.points for value in (one.x, one.y)]
    places += [*drawing.alike, *drawing.run, *(one.at for one in drawing.ticks)]
    assert all(MARGIN <= place <= SIZE - MARGIN for place in places)
    assert (drawing.ticks[0].at, drawing.ticks[-1].at) == (MARGIN, SIZE - MARGIN)


def test_of_many_points_so_many_are_drawn_and_what_is_unusual_always() -> None:
    pairs = [Pair(f"a.py::t{n}", "a.py", 1 + n % 7 / 100, 1.0) for n in range(MAX_POINTS + 500)]
    pairs[-1] = pairs[-1]._replace(now_s=50.0)
    drawing = scatter(compare_times(pairs))
    assert drawing is not None
    assert len(drawing.points) == MAX_POINTS
    assert drawing.hidden == 500
    assert drawing.points[-1].kind == "slower"
    assert drawing.points[-1].title == f"{pairs[-1].name}: base 1.0 s, new 50 s"
    assert {one.title for one in drawing.points[:-1]} == {""}
