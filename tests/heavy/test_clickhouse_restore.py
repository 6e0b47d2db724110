"""A restored store and a ClickHouse that went on: pages, numbers and uploads are those of the backup."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from typer.testing import CliRunner

from ci.config import Settings, load_settings
from ci.hud.cli import app
from ci.hud.opening import STORE_FILE, open_server
from ci.hud.server.backup import back_up, restore
from ci.hud.server.serve import embedded
from ci.store.clickhouse import Clickhouse
from ci.store.database import StoreUnavailableError
from ci.store.replicate import Copier

pytestmark = pytest.mark.nightly

REPOSITORY = "torch-spyre/torch-spyre"
SHA = "0123456789abcdef0123456789abcdef01234567"
NOW = 1_785_000_000.0
TABLES = ("crcr_workflow_job", "test_run", "job_card", "test_run_summary")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    pytest.importorskip("chdb", reason="chdb is not installed")
    flags = {"hud.port": 0, "hud.clickhouse": f"chdb:///{tmp_path / 'chdb'}"}
    return load_settings(path=None, environ={}, flags=flags, cwd=tmp_path)


class Server:
    """One that is served, and what is asked of it."""

    def __init__(self, url: str, settings: Settings, store: Any, said: list[str]) -> None:
        self.url, self.store, self.said = url, store, said
        self.auth = {"Authorization": f"Bearer {(settings.state_dir / 'hud-token').read_text().strip()}"}
        self.clickhouse = store.database
        assert isinstance(self.clickhouse, Clickhouse)

    def report(self, number: int, name: str) -> None:
        workflow = {
            "status": "completed",
            "conclusion": "success",
            "name": "Nightly",
            "job_name": name,
            "check_run_id": number,
            "run_id": number,
            "started_at": "2026-07-25T02:00:00Z",
        }
        body = {
            "event_type": "nightly",
            "delivery_id": SHA,
            "payload": {"head_sha": SHA},
            "workflow": workflow,
        }
        answer = requests.post(f"{self.url}/github/callback", json=body, headers=self.auth, timeout=30)
        assert answer.status_code == 200, answer.text

    def send(self, number: int, tests: int, name: str = "a") -> Any:
        cases = "".join(f'<testcase classname="t.T" name="n{one}" time="1"/>' for one in range(tests))
        query: dict[str, str | int] = {"workflow_id": number, "workflow_run_attempt": 1, "job_id": number}
        answer = requests.post(
            f"{self.url}/api/upload/junit",
            params={**query, "name": name},
            data=f"<testsuite>{cases}</testsuite>",
            headers=self.auth,
            timeout=30,
        )
        assert answer.status_code == 200, answer.text
        return answer.json()

    def jobs(self) -> list[tuple[int, str]]:
        assert Copier(self.store, self.clickhouse, warn=self.said.append).copy()
        found = requests.get(f"{self.url}/api/runs", timeout=30).json()["runs"]
        return sorted((job["id"], job["job_name"]) for job in found)

    def tests(self, number: int) -> tuple[int, int, int]:
        asked = ("count(*) AS n FROM test_run", "sum(tests) AS n FROM job_card")
        rows, cards, summed = (
            int(
                self.clickhouse.rows(f"SELECT {one} WHERE workflow_id = :number", {"number": number})[0]["n"]
                or 0
            )
            for one in (*asked, "sum(tests) AS n FROM test_run_summary")
        )
        return rows, cards, summed


Open = Callable[[], AbstractContextManager[Server]]


@pytest.fixture
def serving(settings: Settings) -> Open:
    @contextmanager
    def make() -> Iterator[Server]:
        said: list[str] = []
        with (
            open_server(settings, {}, clock=lambda: NOW, warn=said.append) as server,
            embedded(server.app) as url,
        ):
            yield Server(url, settings, server.store, said)

    return make


def test_a_restored_store_takes_clickhouse_back_with_it(
    settings: Settings, serving: Open, tmp_path: Path
) -> None:
    store, backup = settings.state_dir / STORE_FILE, tmp_path / "backup"
    with serving() as server:
        server.report(1, "before")
        server.send(1, 3)
        server.report(4, "replaced")
        server.send(4, 2)
        assert back_up(store, backup) == 2
        server.report(2, "after")
        server.send(2, 5)
        server.send(1, 7, name="another part")
        server.send(4, 6)
        assert server.jobs() == [(1, "before"), (2, "replaced"), (3, "after")]
        assert (server.tests(1), server.tests(4)) == ((10, 10, 10), (6, 6, 6))
    restore(backup, store, stamp="1", copied=True)
    with serving() as server:
        (line,) = server.said
        assert line.endswith("what was restored; 1 files of tests it has no more can be sent again")
        assert server.jobs() == [(1, "before"), (2, "replaced")]
        assert [server.tests(number) for number in (1, 2, 4)] == [(3, 3, 3), (0, 0, 0), (0, 0, 0)]
        server.report(3, "new")
        assert server.jobs() == [(1, "before"), (2, "replaced"), (3, "new")]
        assert server.send(1, 3)["unchanged"] == "the same file is here"
        server.report(2, "after")
        assert server.send(2, 5) == {"ok": True, "sent": 5, "stored": 5, "unchanged": ""}
        assert server.send(4, 2) == {"ok": True, "sent": 2, "stored": 2, "unchanged": ""}
        assert [server.tests(number) for number in (1, 2, 4)] == [(3, 3, 3), (5, 5, 5), (2, 2, 2)]
    with serving() as server:
        assert server.said == []


def test_a_restore_while_clickhouse_is_away_is_made_up_for_later(
    settings: Settings, serving: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, backup = settings.state_dir / STORE_FILE, tmp_path / "backup"
    with serving() as server:
        server.report(1, "before")
        back_up(store, backup)
        server.report(2, "after")
        assert len(server.jobs()) == 2

    def away(*_: Any) -> None:
        raise StoreUnavailableError("ClickHouse: away")

    with monkeypatch.context() as context:
        context.setattr(Clickhouse, "connect", away)
        context.setattr(Clickhouse, "_connect", away)
        done = CliRunner().invoke(app, ["restore", str(backup)], obj=settings)
        assert done.exit_code == 0, done.output
        assert "HUD store: 1 job in" in done.output
        assert "hud.clickhouse is not reached (ClickHouse: away)" in done.output
        with serving() as server:
            server.report(3, "while it is away")
            assert requests.get(f"{server.url}/api/runs", timeout=30).status_code == 503
    with serving() as server:
        assert server.jobs() == [(1, "before"), (2, "while it is away")]
