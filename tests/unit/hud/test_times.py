"""Times at the edge of what a row can hold, and times in the wrong order: refused, or read without harm."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ci.hud.callback import Callback, parse_time, stored_epoch, stored_time
from ci.hud.server.pages.render import time_text
from ci.hud.server.queries.jobs import list_jobs
from ci.hud.server.record import row_of
from ci.store.store import Store

# Within the years as they are written, outside them in UTC.
LED_OUT = ("2261-12-31T23:59:59-23:59", "1970-01-01T00:00:00+14:00", "0001-01-01T00:00:00+14:00")
EDGES = ("2261-12-31T23:59:59.999999Z", "1970-01-01T00:00:00Z", "1969-12-31T23:00:00-01:00")


def with_times(payload: dict[str, Any], **workflow: Any) -> dict[str, Any]:
    return {**payload, "workflow": {**payload["workflow"], **workflow}}


@pytest.mark.parametrize("text", LED_OUT)
def test_a_time_that_its_offset_leads_out_of_the_years_is_refused(payload: dict[str, Any], text: str) -> None:
    for key in ("started_at", "completed_at"):
        with pytest.raises(ValidationError, match="outside the years 1970 to 2261"):
            Callback.model_validate(with_times(payload, **{key: text}))
        row, _ = row_of(with_times(payload, **{key: text}), repository="o/r", level="")
        assert key not in row


@pytest.mark.parametrize("text", ["2026-08-01T02:00:00Z", "2026-08-01T04:00:00+02:00", "2026-08-01T02:00:00"])
def test_times_are_read_as_utc(text: str) -> None:
    assert parse_time(text).isoformat() == "2026-08-01T02:00:00+00:00"


@pytest.mark.parametrize("text", EDGES)
def test_the_first_and_the_last_moment_are_taken(text: str) -> None:
    assert 1970 <= parse_time(text).year <= 2261


@given(st.datetimes(timezones=st.timezones()))
def test_a_time_that_is_taken_can_be_read_again_as_it_is_stored(moment: datetime) -> None:
    try:
        taken = parse_time(moment.isoformat())
    except ValueError:
        return
    assert stored_time(taken.strftime("%Y-%m-%dT%H:%M:%S.%fZ")) == taken


@pytest.mark.parametrize("text", ["", "2262-01-01T23:58:59.000000Z", "1969-12-31T10:00:00Z", "soon", "\0"])
def test_a_page_shows_nothing_for_a_stored_time_that_is_none(text: str) -> None:
    assert (stored_time(text), time_text(text), stored_epoch(text)) == (None, "", 0.0)


def test_an_end_before_its_start_is_refused(payload: dict[str, Any]) -> None:
    early = with_times(payload, completed_at="2026-08-01T01:59:59Z")
    with pytest.raises(ValidationError, match="is before started_at, 2026-08-01T02:00:00"):
        Callback.model_validate(early)
    Callback.model_validate(with_times(payload, completed_at="2026-08-01T04:00:00+02:00"))
    Callback.model_validate(with_times(payload, completed_at=None))


def test_a_row_whose_end_is_before_its_start_took_no_time(tmp_path: Path, payload: dict[str, Any]) -> None:
    store = Store(tmp_path / "hud.sqlite")
    early = with_times(payload, completed_at="2026-08-01T01:00:00Z")
    row, detail = row_of(early, repository="o/r", level="")
    store.put(row, detail, at=1000.0)
    (stored,) = list_jobs(store.database, limit=9)
    assert stored["duration_seconds"] == 0
    store.close()
