"""What the pages of runs say of a job, whatever it says of itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

from ci.hud.server.pages import jobs, render
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


def page(template: str, **values: Any) -> str:
    return bytes(render.page(template, here="/runs", **values).body).decode()


def index(rows: list[dict[str, Any]], **more: Any) -> str:
    values = {"total": len(rows), "offset": 0, "step": 100, **more}
    return page("runs.html", jobs=[jobs.view(job) for job in rows], **values)


def run_page(job: dict[str, Any], tries: list[dict[str, Any]]) -> str:
    nothing: dict[str, Any] = {"before": None, "cards": [], "totals": {}, "overall": [], "bars": []}
    nothing |= {"problems": [], "files": [], "slowest": [], "seen": 40, "command": str}
    return page("run.html", job=jobs.view(job), attempts=[jobs.view(one) for one in tries], **nothing)


def test_the_list_says_what_a_person_looks_for(store: Store, payload: dict[str, Any]) -> None:
    told = index([row(store, payload)])
    words = (
        "failure|>r1</a>|7 passed|2 failed|1 skipped|1 (5 %)|spyre|0123456789<|2.13.0|3 min 05 s|nightly-main"
    )
    for text in (*words.split("|"), "2026-08-01 02:00 UTC"):
        assert text in told, text


def test_the_list_leads_to_newer_and_older_runs_and_says_how_to_get_one(
    store: Store, payload: dict[str, Any]
) -> None:
    middle = index([row(store, payload)], total=301, offset=100)
    assert 'href="/runs">Newer' in middle
    assert 'href="/runs?offset=200">Older' in middle
    assert "Older" not in index([row(store, payload)])
    assert "No run was reported yet" in index([])


def test_the_page_of_a_run_has_its_verdicts_and_attempts(store: Store, payload: dict[str, Any]) -> None:
    first = row(store, payload)
    changed = {"run_attempt": 2, "check_run_id": "b", "artifact_url": "https://a.example/report.html"}
    second = row(store, payload, **changed)
    told = run_page(second, attempts(store.database, second))
    assert re.search(r"xfailed</td><td class=\"number\">1<", told)
    for text in (
        f'href="/runs/{first["id"]}">1</a>',
        "2, this one",
        "2026-08-01 02:00:00 UTC",
        'href="https://a.example/report.html" rel="noopener noreferrer"',
        payload["delivery_id"],
        'aria-label="7 passed, 2 failed, 1 skipped"',
    ):
        assert text in told, text


def test_a_failure_in_quarantine_is_told_apart(store: Store, payload: dict[str, Any]) -> None:
    counts = {"verdicts": {"passed": 1, "failed": 5}, "quarantined": 2}
    details = {**counts, "device": "spyre", "emulated": True}
    job = row(store, {**payload, "payload": {**payload["payload"], "spyre_ci": details}})
    told = run_page(job, [job])
    assert re.search(r"failed</td><td class=\"number\">3<", told)
    assert re.search(r"failed in quarantine</td><td class=\"number\">2<", told)
    assert "spyre (emulated)" in told


def test_a_link_shows_no_credentials(store: Store, payload: dict[str, Any]) -> None:
    secret = {"url": "https://me:hush@ci.example/1", "artifact_url": "https://a.example/?token=hush"}
    job = row(store, payload, **secret)
    told = run_page(job, [job])
    assert "hush" not in told
    assert 'href="https://ci.example/1"' in told


@pytest.mark.parametrize(
    ("conclusion", "mark"),
    [
        ("success", ("S", "success", "good")),
        ("failure", ("F", "failure", "bad")),
        ("timed_out", ("T", "timed out", "warn")),
        ("cancelled", ("C", "cancelled", "warn")),
        ("odd", ("O", "odd", "info")),
        (None, ("?", "unknown", "info")),
    ],
)
def test_each_conclusion_has_its_word_letter_and_colour(
    store: Store, payload: dict[str, Any], conclusion: str | None, mark: tuple[str, str, str]
) -> None:
    view = jobs.view(row(store, payload, conclusion=conclusion))
    assert astuple(view["mark"]) == mark


def test_a_job_under_way_shows_as_running(store: Store, payload: dict[str, Any]) -> None:
    job = {**row(store, payload), "completed_at": "", "pr_number": 7}
    for status, word in (("in_progress", "running"), ("queued", "unknown")):
        view = jobs.view({**job, "status": status})
        assert (view["mark"].word, view["duration"], view["event"]) == (word, "", "pull request #7")


@pytest.mark.parametrize(
    "environment", ["", "{", "[]", '{"stage": "<b>"}', '{"sdk": "1", "device": 3}', "[" * 9999]
)
def test_what_others_write_as_environment_does_no_harm(
    store: Store, payload: dict[str, Any], environment: str
) -> None:
    view = jobs.view({**row(store, payload), "environment": environment})
    assert (view["stage"], view["device"], view["title"]) == ("", "", "Nightly 4242")


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
