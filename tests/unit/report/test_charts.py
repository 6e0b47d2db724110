"""Charts: one scale, escaped labels, whole SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.report.charts import Axis, Line, Stretch, as_page, line_chart, time_bars


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
    chart = line_chart("a < b", [Line(label=label, points=points, mark=2.0)], x_label="cards")
    tree = ET.fromstring(chart)  # noqa: S314  # our own text
    assert label in [one.text for one in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert "<script>" not in chart
    assert as_page("a < b", [chart]).startswith("<!doctype html>")


def test_bars_lie_where_their_time_is() -> None:
    chart = time_bars(
        "day", [Stretch(row=1, begin=5.0, end=10.0, kind="stolen")], rows=2, end=10.0, row_name="card"
    )
    boxes = [
        one
        for one in ET.fromstring(chart).iter("{http://www.w3.org/2000/svg}rect")  # noqa: S314
        if one.get("fill") == "#ff832b" and float(one.get("y", 0)) > 60
    ]
    assert [float(one.get("width", 0)) for one in boxes] == [405.0]
