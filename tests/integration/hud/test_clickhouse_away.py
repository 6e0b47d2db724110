"""A server that starts while its ClickHouse is away: reports are taken, the rest is told to come again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import requests

from ci.config import Settings
from ci.core.errors import CommandError
from ci.hud.opening import open_server
from ci.report.store import open_kept
from ci.store.clickhouse import RETRY_S, Clickhouse
from ci.store.database import StoreUnavailableError
from tests.hud_server import embedded

from .conftest import post_report, upload

pytest.importorskip("clickhouse_connect", reason="the extra clickhouse is not installed")
NOW = 1_785_000_000.0
# Nothing listens on the discard port.
AWAY = "clickhouse://somebody@127.0.0.1:9/db"


def test_reports_are_taken_and_pages_and_uploads_get_503(
    settings: Callable[..., Settings], payload: dict[str, Any]
) -> None:
    said: list[str] = []
    there = settings(store__clickhouse=AWAY)
    with (
        open_server(there, {}, clock=lambda: NOW, warn=said.append) as server,
        embedded(server.app) as url,
    ):
        token = (there.state_dir / "hud-token").read_text().strip()
        answer = post_report(url, payload, token)
        assert (answer.status_code, answer.json()["status"]) == (200, "completed")
        sent = upload(url, token, "junit", b'<testsuite><testcase name="a"/></testsuite>')
        answers = [sent, *(requests.get(f"{url}{path}", timeout=30) for path in ("/", "/api/runs"))]
        assert [(one.status_code, one.headers["Retry-After"]) for one in answers] == [(503, "30")] * 3
        with server.store.transaction() as connection:
            assert connection.execute("SELECT count(*) FROM crcr_workflow_job").fetchone() == (1,)
    assert "store.clickhouse is not reached" in next(line for line in said if "store.clickhouse" in line)


def test_a_verb_that_needs_it_ends_with_its_name(settings: Callable[..., Settings]) -> None:
    with (
        pytest.raises(CommandError, match="ClickHouse cannot be used"),
        open_kept(settings(store__clickhouse=AWAY), {}, warn=print),
    ):
        pass


def test_it_is_not_asked_for_at_once_again_but_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[float] = []
    now = [0.0]

    def refuse(**_: Any) -> Any:
        tries.append(now[0])
        raise OSError("away")

    monkeypatch.setattr("clickhouse_connect.get_client", refuse)
    clickhouse = Clickhouse(AWAY, clock=lambda: now[0])
    for at in (0.0, 1.0, RETRY_S - 1, RETRY_S + 1, RETRY_S + 2):
        now[0] = at
        with pytest.raises(StoreUnavailableError, match="away"):
            clickhouse.rows("SELECT 1")
    assert tries == [0.0, RETRY_S + 1]
    clickhouse.close()
