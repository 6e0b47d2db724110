"""A server whose tests are in ClickHouse: reports, uploads, pages, pruning; also while ClickHouse is away."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from ci.config import Settings, load_settings
from ci.core.errors import CommandError, SettingsError
from ci.hud.opening import open_server
from ci.hud.server.queries.jobs import count_jobs
from ci.report.store import open_kept
from ci.store.clickhouse import Clickhouse
from ci.store.database import StoreUnavailableError
from ci.store.identity import job_number
from ci.store.prune import DAY_S, prune
from ci.store.replicate import Copier
from tests.hud_server import embedded

pytestmark = pytest.mark.nightly

REPOSITORY = "torch-spyre/torch-spyre"
SHA = "0123456789abcdef0123456789abcdef01234567"
NOW = 1_785_000_000.0
JUNIT = (
    b'<testsuite><testcase name="a" classname="A" file="t.py"><failure message="no"/></testcase></testsuite>'
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    pytest.importorskip("chdb", reason="chdb is not installed")
    # One engine can be open in a process, so every test has the same folder in it.
    return load_settings(
        path=None,
        environ={},
        flags={"hud.port": 0, "store.clickhouse": f"chdb:///{tmp_path / 'chdb'}"},
        cwd=tmp_path,
    )


def report(number: int = 1) -> dict[str, Any]:
    workflow = {
        "status": "completed",
        "conclusion": "failure",
        "name": "Nightly",
        "job_name": "pytorch",
        "check_run_id": f"{number}-1",
        "run_id": number,
        "started_at": "2026-07-25T02:00:00Z",
        "completed_at": "2026-07-25T02:30:00Z",
        "test_results": {"passed": 0, "failed": 1, "skipped": 0},
    }
    payload = {"head_sha": SHA, "spyre_ci": {"run": f"r{number}", "lane": "nightly"}}
    return {"event_type": "nightly", "delivery_id": SHA, "payload": payload, "workflow": workflow}


def post(url: str, settings: Settings, path: str, **more: Any) -> requests.Response:
    token = (settings.state_dir / "hud-token").read_text().strip()
    return requests.post(f"{url}{path}", headers={"Authorization": f"Bearer {token}"}, timeout=30, **more)


def upload(url: str, settings: Settings, number: int = 1) -> requests.Response:
    query = {
        "workflow_id": number,
        "workflow_run_attempt": 1,
        "job_id": job_number(f"{number}-1", repository=REPOSITORY),
        "name": "1.xml",
    }
    return post(url, settings, "/api/upload/junit", params=query, data=JUNIT)


def eventually(ask: Callable[[], Any]) -> Any:
    """What is asked, once there is something; copies take a second."""

    for _ in range(100):
        if found := ask():
            return found
        time.sleep(0.1)
    raise AssertionError("it never came")


def test_reports_and_tests_are_seen_in_pages_and_gone_after_pruning(settings: Settings) -> None:
    said: list[str] = []
    with (
        open_server(settings, {}, clock=lambda: NOW, warn=said.append) as server,
        embedded(server.app) as url,
    ):
        assert post(url, settings, "/github/callback", json=report()).json() == {
            "ok": True,
            "status": "completed",
        }
        assert upload(url, settings).json() == {"ok": True, "sent": 1, "stored": 1, "unchanged": ""}
        assert upload(url, settings).json()["unchanged"] == "the same file is here"
        (job,) = eventually(lambda: requests.get(f"{url}/api/runs", timeout=30).json()["runs"])
        assert (job["started_at"], job["duration_seconds"]) == ("2026-07-25T02:00:00.000000Z", 1800.0)
        page = requests.get(f"{url}/runs/{job['id']}", timeout=30)
        assert page.status_code == 200
        assert "t.py::A::a" in page.text
        assert server.store.path.stat().st_size > 0
        gone = prune(server.store, server.rows, before=NOW + DAY_S, at=NOW + DAY_S)
        assert (gone.jobs, gone.tests) == (1, 1)
        assert eventually(lambda: requests.get(f"{url}/api/runs", timeout=30).json()["total"] == 0)
    assert said == []


def test_what_came_before_and_while_it_was_away_is_copied_when_it_is_there(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    with open_kept(settings, {}, warn=said.append) as kept:
        clickhouse = kept.store.database
        assert isinstance(clickhouse, Clickhouse)
        copier = Copier(kept.store, clickhouse, warn=said.append)

        def away(*_: Any) -> None:
            raise StoreUnavailableError("ClickHouse: away")

        with monkeypatch.context() as context:
            context.setattr(clickhouse, "insert", away)
            for number in range(2500):
                kept.store.put(
                    {"dynamoKey": f"k{number}", "run_id": str(number), "job_id": number}, None, at=NOW
                )
            assert not copier.copy()
            assert not copier.copy()
        assert [line for line in said if "wait to be copied" in line]
        assert copier.copy()
        assert count_jobs(kept.store.database) == 2500
        kept.store.put({"dynamoKey": "k7", "status": "completed"}, None, at=NOW + 1)
        assert copier.copy()
        (row,) = clickhouse.rows("SELECT status, run_id FROM crcr_workflow_job WHERE dynamoKey = 'k7'")
        assert row == {"status": "completed", "run_id": "7"}


@pytest.mark.parametrize(
    "address", ["clickhouse://user:secret@h/db", "http://h", "clickhouse://", "sqlite:///x"]
)
def test_an_address_that_cannot_be_one_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(path=None, environ={}, flags={"store.clickhouse": address}, cwd=tmp_path)
    assert "store.clickhouse" in str(caught.value)


def test_a_clickhouse_that_is_not_there_ends_the_start_with_its_name(tmp_path: Path) -> None:
    flags = {"store.clickhouse": "clickhouse://somebody@127.0.0.1:9/db"}
    there = load_settings(path=None, environ={}, flags=flags, cwd=tmp_path)
    environ = {"SPYRE_CI_CLICKHOUSE_PASSWORD": "very-secret"}
    with (
        pytest.raises(CommandError, match="ClickHouse cannot be used") as caught,
        open_kept(there, environ, warn=print),
    ):
        pass
    assert "very-secret" not in str(caught.value)
