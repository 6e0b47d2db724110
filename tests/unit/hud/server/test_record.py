from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ci.hud.server.queries.jobs import attempts, count_jobs, list_jobs, one_job
from ci.hud.server.record import record_callback
from ci.hud.server.states import note_dispatched
from ci.store.store import Store

REPOSITORY = "torch-spyre/torch-spyre"
COLUMNS = """
    dynamoKey status downstream_repo upstream_repo pr_number pytorch_head_sha delivery_id workflow_run_url
    workflow_name job_name check_run_id run_id run_attempt conclusion queue_time execution_time started_at
    completed_at total_tests passed_tests failed_tests skipped_tests failed_tests_json artifact_url
    environment downstream_repo_level event_type repository_full_name duration_seconds
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "state" / "hud.sqlite")
    yield store
    store.close()


def changed(payload: dict[str, Any], **workflow: Any) -> dict[str, Any]:
    return {**payload, "workflow": {**payload["workflow"], **workflow}}


def pull_request(payload: dict[str, Any], status: str, **workflow: Any) -> dict[str, Any]:
    dispatched = {"pull_request": {"number": 7, "head": {"sha": "abc"}}}
    content = {**payload, "event_type": "pull_request", "delivery_id": "d-1", "payload": dispatched}
    return changed(content, status=status, **workflow)


def record(store: Store, callback: dict[str, Any], at: float = 1000.0) -> None:
    record_callback(store, callback, repository=REPOSITORY, at=at)


def test_a_nightly_is_a_row_with_the_contracts_columns(store: Store, payload: dict[str, Any]) -> None:
    record(store, changed(payload))
    (row,) = list_jobs(store.database, limit=10)
    assert set(COLUMNS.split()) <= set(row)
    workflow = payload["workflow"]
    named = f"{workflow['name']}/{workflow['job_name']}/{workflow['check_run_id']}"
    assert row["dynamoKey"] == f"{REPOSITORY}/{payload['delivery_id']}/{named}"
    assert (row["status"], row["conclusion"], row["event_type"]) == ("completed", "failure", "nightly")
    assert (row["passed_tests"], row["failed_tests"], row["skipped_tests"], row["total_tests"]) == (
        7,
        2,
        1,
        10,
    )
    assert row["started_at"] == "2026-08-01T02:00:00.000000Z"
    assert row["duration_seconds"] == 185.0
    assert (row["repository_full_name"], row["upstream_repo"]) == (REPOSITORY, "pytorch/pytorch")
    assert row["queue_time"] is None


def test_a_later_attempt_supersedes_the_one_before(store: Store, payload: dict[str, Any]) -> None:
    record(store, changed(payload))
    record(store, changed(payload, run_attempt=2, check_run_id="4242-2", conclusion="success"))
    (row,) = list_jobs(store.database, limit=10)
    assert (row["run_attempt"], row["conclusion"]) == (2, "success")
    assert count_jobs(store.database) == 1
    assert [(one["run_attempt"], one["superseded"]) for one in attempts(store.database, row)] == [
        (1, 1),
        (2, 0),
    ]


def test_rows_come_newest_first_and_in_pages(store: Store, payload: dict[str, Any]) -> None:
    for hour in (3, 5, 4):
        times = {"started_at": f"2026-08-01T0{hour}:00:00Z", "completed_at": f"2026-08-01T0{hour}:30:00Z"}
        record(store, changed(payload, run_id=hour, check_run_id=hour, **times))
    assert [row["run_id"] for row in list_jobs(store.database, limit=2)] == ["5", "4"]
    assert [row["run_id"] for row in list_jobs(store.database, limit=2, offset=2)] == ["3"]
    assert count_jobs(store.database) == 3


def test_a_row_is_found_by_its_number(store: Store, payload: dict[str, Any]) -> None:
    record(store, changed(payload))
    (row,) = list_jobs(store.database, limit=1)
    assert one_job(store.database, row["id"]) == row
    assert one_job(store.database, row["id"] + 1) is None


def test_a_rerun_starts_fresh_and_has_no_queue_time(store: Store, payload: dict[str, Any]) -> None:
    note_dispatched(store, delivery_id="d-1", repository=REPOSITORY, at=1000)
    record(store, pull_request(payload, "in_progress"))
    record(store, pull_request(payload, "in_progress", run_attempt=2, check_run_id="9"))
    assert list_jobs(store.database, limit=1)[0]["queue_time"] is None


def test_a_second_dispatch_changes_nothing(store: Store, payload: dict[str, Any]) -> None:
    note_dispatched(store, delivery_id="d-1", repository=REPOSITORY, at=1000)
    note_dispatched(store, delivery_id="d-1", repository=REPOSITORY, at=2000)
    record(store, pull_request(payload, "in_progress"), at=2010)
    assert list_jobs(store.database, limit=1)[0]["queue_time"] == 1010


def test_an_event_without_a_type_counts_as_a_pull_request(store: Store, payload: dict[str, Any]) -> None:
    note_dispatched(store, delivery_id=payload["delivery_id"], repository=REPOSITORY, at=1)
    record(store, changed({**payload, "event_type": ""}, status="in_progress"))
    assert list_jobs(store.database, limit=1)[0]["event_type"] == "pull_request"
