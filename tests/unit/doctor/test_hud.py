"""The endpoint, and how far its clock is from ours."""

from __future__ import annotations

from dataclasses import replace
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.doctor.finding import Level
from ci.doctor.hud import FAULT_S, WARN_S, HudFacts, judge_clock, judge_hud, skew_of

SERVER = HudFacts(kind="server", shown="https://hud", status=405, skew_s=0.2, trip_s=0.1)
NOW = 1_785_000_000.0


@pytest.mark.parametrize(
    ("facts", "level", "words"),
    [
        (HudFacts(kind="none"), Level.OK, "not used"),
        (HudFacts(kind="embedded", shown="/s/hud.sqlite"), Level.OK, "embedded, kept in /s/hud.sqlite"),
        (SERVER, Level.OK, "https://hud answers in 0.1 s"),
        (replace(SERVER, status=302), Level.FAULT, "a redirect"),
        (replace(SERVER, status=503), Level.FAULT, "out of order"),
        (replace(SERVER, status=404), Level.FAULT, "no such path"),
        (replace(SERVER, status=429), Level.WARNING, "too busy"),
        (replace(SERVER, why="it cannot be reached"), Level.FAULT, "it cannot be reached"),
    ],
)
def test_an_endpoint_takes_reports_or_it_is_said(facts: HudFacts, level: Level, words: str) -> None:
    found = judge_hud(facts)[0]
    assert (found.look, found.level) == ("hud", level)
    assert words in found.said


def test_a_token_in_the_clear_is_a_warning() -> None:
    assert judge_hud(replace(SERVER, in_clear=True))[-1].said.endswith(
        "whoever listens on the way reads the token"
    )


@pytest.mark.parametrize(
    ("skew", "trip", "level"),
    [
        (0, 0, Level.OK),
        (30, 0, Level.OK),
        (31, 0, Level.WARNING),
        (-31, 0, Level.WARNING),
        (300, 0, Level.WARNING),
        (301, 0, Level.FAULT),
        (-3600, 1, Level.FAULT),
        # Of a slow answer nobody knows when the server looked at its clock.
        (31, 10, Level.OK),
        (301, 10, Level.WARNING),
    ],
)
def test_clocks_are_judged_by_what_is_certain(skew: float, trip: float, level: Level) -> None:
    (found,) = judge_clock(replace(SERVER, skew_s=skew, trip_s=trip))
    assert (found.look, found.level) == ("clock", level)
    assert "round trip" in found.said


def test_which_clock_is_behind_is_said() -> None:
    assert "is 6 min 40 s behind the endpoint's" in judge_clock(replace(SERVER, skew_s=400))[0].said
    assert "is 6 min 40 s ahead of the endpoint's" in judge_clock(replace(SERVER, skew_s=-400))[0].said


def test_where_the_endpoint_tells_no_time_none_is_compared() -> None:
    assert judge_clock(replace(SERVER, skew_s=None))[0].level is Level.OK


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"date": "now"},
        {"date": ""},
        *({"date": formatdate(NOW), "age": one} for one in ("x", "nan", "inf", "-1", "1e300")),
    ],
)
def test_a_date_that_is_none_says_nothing(headers: dict[str, str]) -> None:
    assert skew_of(headers, sent=NOW, came=NOW) is None


@given(
    st.floats(-1e6, 1e6),
    st.floats(0, 20),
    st.floats(0, 1),
    st.integers(0, 10_000),
)
def test_the_true_skew_is_within_what_is_said(skew: float, trip: float, when: float, age: int) -> None:
    """However far the clocks are apart and whenever the server looked, no verdict is worse than the truth."""
    looked = NOW + trip * when + skew
    date = formatdate(int(looked - age) if age else int(looked), usegmt=True)
    told = skew_of({"date": date, "age": str(age)}, sent=NOW, came=NOW + trip)
    assert told is not None
    assert abs(told - skew) <= trip / 2 + 0.5 + 1e-3 + (1 if age else 0)
    if not age:
        level = judge_clock(replace(SERVER, skew_s=told, trip_s=trip))[0].level
        assert level is not Level.FAULT or abs(skew) > FAULT_S - 1e-3
        assert level is Level.OK or abs(skew) > WARN_S - 1e-3
