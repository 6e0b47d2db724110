"""When the chores of a server are due."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ci.hud.server.record import record_callback
from ci.hud.server.serve import Chores
from ci.hud.server.states import SILENT_S, note_dispatched
from ci.store.database import StoreUnavailableError
from ci.store.prune import DAY_S
from ci.store.row_store import SqliteRowStore
from ci.store.store import Store

REPOSITORY = "o/r"
NOW = 1_785_000_000.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "hud.sqlite")
    yield store
    store.close()


def chores(store: Store, said: list[str]) -> Chores:
    rows = SqliteRowStore(store.transaction)
    return Chores(store=store, rows=rows, warn=said.append, sweep_every_s=600, keep_days=30)


def running(store: Store, payload: dict[str, Any], at: float) -> None:
    note_dispatched(store, delivery_id="d-1", repository=REPOSITORY, at=at)
    content = {**payload, "event_type": "pull_request", "delivery_id": "d-1"}
    workflow = {**payload["workflow"], "status": "in_progress"}
    record_callback(store, {**content, "workflow": workflow}, repository=REPOSITORY, at=at)


def test_chores_are_done_at_the_start_and_when_they_are_due(store: Store, payload: dict[str, Any]) -> None:
    said: list[str] = []
    work = chores(store, said)
    running(store, payload, NOW)
    work.tick(NOW + SILENT_S - 60)
    work.tick(NOW + SILENT_S + 60)
    assert said == []
    work.tick(NOW + SILENT_S + 600)
    assert said == ["store: 1 job timed out, without a report for 6 hours"]
    work.tick(NOW + 50 * DAY_S)
    assert said[1:] == ["store: 1 job older than 30 days pruned"]


def test_chores_are_done_although_the_clock_was_ahead_once(store: Store, payload: dict[str, Any]) -> None:
    said: list[str] = []
    work = chores(store, said)
    work.tick(NOW + 365 * DAY_S)
    running(store, payload, NOW)
    work.tick(NOW + SILENT_S + 60)
    assert said == ["store: 1 job timed out, without a report for 6 hours"]


@pytest.mark.parametrize("error", [sqlite3.OperationalError, StoreUnavailableError])
def test_a_chore_that_fails_is_said_and_comes_again(
    store: Store, payload: dict[str, Any], monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def locked(*_: Any, **__: Any) -> int:
        raise error("database is locked")

    said: list[str] = []
    work = chores(store, said)
    running(store, payload, NOW)
    monkeypatch.setattr("ci.hud.server.serve.sweep", locked)
    work.tick(NOW + SILENT_S + 1)
    assert said == ["store: sweep failed and will be retried: database is locked"]
    monkeypatch.undo()
    work.tick(NOW + SILENT_S + 2)
    assert said[1:] == ["store: 1 job timed out, without a report for 6 hours"]
