"""Charts: one scale, escaped labels, whole SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.svg import Axis
from ci.report.charts import Line, Stretch, as_page, line_chart, time_bars


@given(st.floats(0.01, 1e6), st.floats(0.01, 1e6), st.floats(-10, 1e7), st.booleans())
def test_a_value_stands_between_the_ends_of_its_axis(a: float, b: float, value: float, log: bool) -> None:
    axis = Axis(low=min(a, b), high=max(a, b), start=10, end=110, log=log)
    assert 10 <= axis.at(value) <= 110
    assert axis.at(axis.low) == 10


def test_logarithms_make_equal_steps_of_equal_ratios() -> None:
    axis = Axis(low=1, high=100, start=0, end=200, log=True)
    assert [axis.at(value) for value in (1, 10, 100)] == [0, 100, 200]


@pytest.mark.parametrize("points", [(), ((1.0, 0.0),), ((1.0, 5.0), (4096.0, 0.5))])
def test_a_chart_is_whole_whatever_it_shows(points: tuple[tuple[float, float], ...]) -> None:
    label = "<script>&"
    chart = line_chart(
        "a < b", [Line(label=label, points=points, mark=2.0)], x_label="cards", y_label="makespan"
    )
    tree = ET.fromstring(chart)  # noqa: S314  # our own text
    assert label in [one.text for one in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert "<script>" not in chart
    assert as_page("a < b", [chart]).startswith("<!doctype html>")


def test_bars_lie_where_their_time_is() -> None:
    chart = time_bars("day", [Stretch(row=1, begin=5.0, end=10.0, kind="stolen")], rows=["a", "b"], end=10.0)
    boxes = [
        one
        for one in ET.fromstring(chart).iter("{http://www.w3.org/2000/svg}rect")  # noqa: S314
        if one.get("fill") == "#ff832b" and float(one.get("y", 0)) > 60
    ]
    assert [float(one.get("width", 0)) for one in boxes] == [395.0]


def test_a_line_chart_names_its_axes_its_marks_and_round_times() -> None:
    points = ((1.0, 9000.0), (128.0, 20.0))
    lines = [Line(label="four", points=points, mark=128.0), Line(label="five", points=points)]
    chart = line_chart("t", lines, x_label="cards", y_label="makespan", mark_label="its own cards")
    texts = [one.text for one in ET.fromstring(chart).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314
    assert {"cards", "makespan", "its own cards", "30 s", "1 min 00 s", "1 h 00 min"} <= set(texts)
    # Lines that coincide show both: the later one is dashed.
    assert chart.count("stroke-dasharray") == 1


def test_the_times_below_bars_stay_within_the_drawing() -> None:
    chart = time_bars("day", [], rows=["shard 0", "shard 9"], end=335.0)
    texts = list(ET.fromstring(chart).iter("{http://www.w3.org/2000/svg}text"))  # noqa: S314
    last = next(one for one in texts if one.text == "5 min 35 s")
    assert (last.get("text-anchor"), float(last.get("x", 0)) <= 860) == ("middle", True)
    assert {"shard 0", "shard 9"} <= {one.text for one in texts}


def test_a_chart_of_no_rows_is_whole() -> None:
    ET.fromstring(time_bars("day", [], rows=[], end=0.0))  # noqa: S314
