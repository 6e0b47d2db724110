"""Cron lines for GitHub and Jenkins: what they read as a crontab does, and what is refused."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import SettingsError
from ci.lanes.dialects import for_github, for_jenkins

WHERE = "lanes.a.cadence"


@pytest.mark.parametrize("line", ["17 2 * * *", "*/15 1-5 * * 1-5", "5,35 0-23/2 1,15 * *", "0 */6 * 3-9 *"])
def test_numbers_ranges_and_steps_stay_as_they_are(line: str) -> None:
    assert for_github(line, WHERE) == line
    assert for_jenkins(line, WHERE) == line


def test_names_become_numbers_and_sunday_is_0() -> None:
    assert for_jenkins("0 2 * JAN-MAR SUN,SAT", WHERE) == "0 2 * 1,2,3 0,6"
    assert for_github("0 2 * * 5-7", WHERE) == "0 2 * * 0,5,6"


def test_a_step_from_a_number_on_is_a_list() -> None:
    assert for_jenkins("10/20 2 * * *", WHERE) == "10,30,50 2 * * *"


@pytest.mark.parametrize("field", ["0 2 L * *", "0 2 LW * *", "0 2 * * MON#1", "0 2 * * 5L"])
def test_last_days_and_nth_weekdays_are_refused(field: str) -> None:
    for dialect in (for_github, for_jenkins):
        with pytest.raises(SettingsError) as caught:
            dialect(field, WHERE)
        assert "which neither GitHub nor Jenkins knows" in str(caught.value)
        assert "lanes.a.cadence: " in str(caught.value)


def test_days_of_the_month_or_of_the_week_are_refused_for_jenkins_which_takes_both() -> None:
    assert for_github("0 2 1-7 * 1", WHERE) == "0 2 1-7 * 1"
    with pytest.raises(SettingsError, match="a day that is either, Jenkins one that is both"):
        for_jenkins("0 2 1-7 * 1", WHERE)


def test_a_step_over_days_beside_a_weekday_is_refused_for_github() -> None:
    assert for_jenkins("0 2 */2 * 1", WHERE) == "0 2 */2 * 1"
    with pytest.raises(SettingsError, match="which crons read differently"):
        for_github("0 2 */2 * 1", WHERE)


@pytest.mark.parametrize(
    ("line", "gap"), [("*/4 * * * *", 4), ("* * * * *", 1), ("0,3 2 * * *", 3), ("58,0 * * * *", 2)]
)
def test_what_is_due_more_often_than_github_begins_is_refused(line: str, gap: int) -> None:
    assert for_jenkins(line, WHERE) == line
    with pytest.raises(
        SettingsError, match=f"has times {gap} min apart, and GitHub begins nothing more often"
    ):
        for_github(line, WHERE)


def test_five_minutes_are_enough_for_github() -> None:
    assert for_github("*/5 * * * *", WHERE) == "*/5 * * * *"
    assert for_github("58 23 * * *", WHERE) == "58 23 * * *"


FIELDS = st.tuples(
    st.sampled_from(["0", "*/5", "5-50/9", "10/20", "1,31"]),
    st.sampled_from(["*", "2", "*/3", "8-17", "1/6"]),
    st.sampled_from(["*", "1", "*/9", "1-7"]),
    st.sampled_from(["*", "FEB", "JAN-MAR", "3,10"]),
    st.sampled_from(["*", "SUN", "7", "5-7", "1-5", "MON,3"]),
)


@given(FIELDS.map(" ".join))
def test_whatever_is_exported_has_the_times_of_the_settings(line: str) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for dialect in (for_github, for_jenkins):
        try:
            found = dialect(line, WHERE)
        except SettingsError:
            continue
        times = [list(itertools.islice(CronSim(one, start), 30)) for one in (line, found)]
        assert times[0] == times[1]
