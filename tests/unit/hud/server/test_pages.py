from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.hud.server.pages import jobs as pages
from ci.hud.server.pages import render
from ci.hud.server.pages.render import page_text
from ci.hud.server.queries.jobs import attempts, list_jobs
from ci.hud.server.record import record_callback
from ci.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "hud.sqlite")
    yield store
    store.close()


def row(store: Store, payload: dict[str, Any], **workflow: Any) -> dict[str, Any]:
    content = {**payload, "workflow": {**payload["workflow"], **workflow}}
    record_callback(store, content, repository="o/r", at=1000)
    return list_jobs(store.database, limit=1)[0]


def index(jobs: list[dict[str, Any]], **more: Any) -> str:
    values = {"total": len(jobs), "offset": 0, "step": 100, **more}
    return page_text("runs.html", nonce="n", here="/runs", jobs=[pages.view(job) for job in jobs], **values)


def run_page(job: dict[str, Any], tries: list[dict[str, Any]]) -> str:
    nothing: dict[str, Any] = {"before": None, "cards": [], "totals": {}, "overall": [], "bars": []}
    nothing |= {"problems": [], "files": [], "slowest": [], "seen": 40, "command": str}
    shown = {"job": pages.view(job), "attempts": [pages.view(one) for one in tries]}
    return page_text("run.html", nonce="n", here="/runs", **shown, **nothing)


def test_the_list_says_what_a_person_looks_for(store: Store, payload: dict[str, Any]) -> None:
    page = index([row(store, payload)])
    for text in (
        "failure",
        ">r1</a>",
        "7 passed",
        "2 failed",
        "1 skipped",
        "1 (5 %)",
        "spyre",
        "0123456789<",
        "2.13.0",
        "2026-08-01 02:00 UTC",
        "3 min 05 s",
        "nightly-main",
    ):
        assert text in page, text


def test_an_empty_list_says_how_to_get_a_run() -> None:
    assert "No run was reported yet" in index([])


def test_the_list_leads_to_newer_and_older_runs(store: Store, payload: dict[str, Any]) -> None:
    page = index([row(store, payload)], total=301, offset=100)
    assert 'href="/runs">Newer' in page
    assert 'href="/runs?offset=200">Older' in page
    assert "Older" not in index([row(store, payload)])


def test_the_page_of_a_run_has_its_verdicts_and_attempts(store: Store, payload: dict[str, Any]) -> None:
    first = row(store, payload)
    second = row(
        store, payload, run_attempt=2, check_run_id="b", artifact_url="https://a.example/report.html"
    )
    page = run_page(second, attempts(store.database, second))
    assert re.search(r"xfailed</td><td class=\"number\">1<", page)
    assert f'href="/runs/{first["id"]}">1</a>' in page
    assert "2, this one" in page
    assert "2026-08-01 02:00:00 UTC" in page
    assert 'href="https://a.example/report.html" rel="noopener noreferrer"' in page
    assert payload["delivery_id"] in page


def test_a_failure_in_quarantine_is_told_apart(store: Store, payload: dict[str, Any]) -> None:
    details = {
        "verdicts": {"passed": 1, "failed": 5},
        "quarantined": 2,
        "device": "spyre",
        "emulated": True,
    }
    job = row(store, {**payload, "payload": {**payload["payload"], "spyre_ci": details}})
    page = run_page(job, [job])
    assert re.search(r"failed</td><td class=\"number\">3<", page)
    assert re.search(r"failed in quarantine</td><td class=\"number\">2<", page)
    assert "spyre (emulated)" in page


def test_a_link_shows_no_credentials(store: Store, payload: dict[str, Any]) -> None:
    job = row(
        store, payload, url="https://me:hush@ci.example/1", artifact_url="https://a.example/?token=hush"
    )
    page = run_page(job, [job])
    assert "hush" not in page
    assert 'href="https://ci.example/1"' in page


@pytest.mark.parametrize(
    ("workflow", "label", "colour"),
    [
        ({"conclusion": "success"}, "success", "good"),
        ({"conclusion": "failure"}, "failure", "bad"),
        ({"conclusion": "timed_out"}, "timed out", "warn"),
        ({"conclusion": "cancelled"}, "cancelled", "warn"),
        ({"conclusion": "odd"}, "odd", "info"),
        ({"conclusion": None}, "unknown", "info"),
    ],
)
def test_each_conclusion_has_its_word_and_colour(
    store: Store, payload: dict[str, Any], workflow: dict[str, Any], label: str, colour: str
) -> None:
    view = pages.view(row(store, payload, **workflow))
    assert (view.label, view.colour) == (label, colour)


def test_a_job_under_way_shows_as_running(store: Store, payload: dict[str, Any]) -> None:
    job = row(store, payload)
    view = pages.view({**job, "status": "in_progress", "completed_at": "", "total_tests": 0, "pr_number": 7})
    assert (view.label, view.duration, view.event) == ("running", "", "pull request #7")


@pytest.mark.parametrize(
    "environment", ["", "{", "[]", '{"stage": "<b>"}', '{"sdk": "1", "device": 3}', "[" * 9999]
)
def test_what_others_write_as_environment_does_no_harm(
    store: Store, payload: dict[str, Any], environment: str
) -> None:
    view = pages.view({**row(store, payload), "environment": environment})
    assert (view.stage, view.device, view.title) == ("", "", "Nightly 4242")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (0.0004, "<1 ms"),
        (0.0421, "42 ms"),
        (0.41, "0.4 s"),
        (9.99, "10 s"),
        (59.4, "59 s"),
        (60, "1 min 00 s"),
        (185, "3 min 05 s"),
        (7621, "2 h 07 min"),
        (350_000, "4 d 1 h"),
    ],
)
def test_durations_read_as_people_say_them(seconds: float, text: str) -> None:
    assert render.duration(seconds) == text


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_bar_is_full_and_shows_every_count_that_is_there(passed: int, failed: int, skipped: int) -> None:
    pieces = pages.bars(passed, failed, skipped)
    assert len(pieces) == sum(bool(number) for number in (passed, failed, skipped))
    assert all(piece.width >= 2 for piece in pieces)
    if pieces:
        assert abs(sum(piece.width for piece in pieces) - 120) < 0.1
