"""What was answered 200 stays: fifty clients post while the server is killed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests

from ci.config import Settings
from ci.hud.server.queries.jobs import count_jobs, list_jobs
from ci.hud.server.record import record_callback
from ci.store.store import Store

from .conftest import post_report, serve_process

CLIENTS = 50
ENOUGH = 300
MakeSettings = Callable[..., Settings]


class Posting:
    """Clients that post job after job until the server is gone; what was answered 200."""

    def __init__(self, url: str, token: str, payload: dict[str, Any]) -> None:
        self._url, self._token, self._payload = url, token, payload
        self.taken: list[int] = []
        self.enough = threading.Event()

    def post(self, client: int) -> None:
        for number in range(1 + client * 1000, 1000 + client * 1000):
            workflow = {**self._payload["workflow"], "run_id": number, "check_run_id": number}
            try:
                answer = post_report(self._url, {**self._payload, "workflow": workflow}, self._token)
            except requests.RequestException:
                return
            assert answer.status_code == 200, answer.text
            self.taken.append(number)
            if len(self.taken) >= ENOUGH:
                self.enough.set()


def test_a_server_killed_under_fifty_clients_has_what_it_answered(
    tmp_path: Path, payload: dict[str, Any]
) -> None:
    (tmp_path / "spyre-ci.yaml").write_text("hud: {rate_limit: 100000}\n")
    with serve_process(tmp_path) as (process, url), ThreadPoolExecutor(CLIENTS) as pool:
        token = (tmp_path / ".spyre-ci" / "hud-token").read_text().strip()
        posting = Posting(url, token, payload)
        clients = [pool.submit(posting.post, client) for client in range(CLIENTS)]
        assert posting.enough.wait(120)
        process.send_signal(signal.SIGKILL)
        for client in clients:
            client.result(60)
    with closing(Store(tmp_path / ".spyre-ci" / "store.sqlite")) as store:
        stored = {int(row["run_id"]) for row in list_jobs(store.database, limit=100_000)}
    assert set(posting.taken) <= stored
    assert len(posting.taken) >= ENOUGH


@pytest.fixture
def filled(settings: MakeSettings, payload: dict[str, Any]) -> Settings:
    there = settings()
    with closing(Store(there.store_path)) as store:
        # In 1970, so that it is older than anything by the real clock.
        record_callback(store, payload, repository="o/r", at=1000.0)
    return there


def jobs(settings: Settings) -> int:
    with closing(Store(settings.store_path)) as store:
        return count_jobs(store.database)


def test_serve_prunes_what_is_older_than_it_keeps(filled: Settings, tmp_path: Path) -> None:
    with serve_process(tmp_path) as (process, url):
        assert process.stdout is not None
        assert process.stdout.readline() == "store: 1 job older than 180 days pruned\n"
        assert requests.get(f"{url}/healthz", timeout=20).json()["runs"] == 0
    assert jobs(filled) == 0
