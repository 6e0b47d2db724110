"""What pages and routes ask, asked of ClickHouse: the same answers as of SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, is_dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from ci.hud.server.clickhouse import Clickhouse
from ci.hud.server.database import SqliteDatabase
from ci.hud.server.queries.jobs import one_job
from tests.hud_seed import Seeded, seed
from tests.unit.hud.server.asked import ASKED, END

pytestmark = pytest.mark.heavy

TABLES = ("crcr_workflow_job", "job_detail", "test_run", "test_run_summary", "job_card")
# SQLite's columns that are made of others.
MADE = ("repository_full_name", "duration_seconds", "_inserted_at")


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Seeded:
    return seed(tmp_path_factory.mktemp("hud") / "hud.sqlite", end=END, tests=4000, days=20)


@pytest.fixture(scope="module")
def both(
    seeded: Seeded, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SqliteDatabase, Clickhouse]]:
    pytest.importorskip("chdb", reason="chdb is not installed")
    sqlite = SqliteDatabase(seeded.path)
    clickhouse = Clickhouse(f"chdb:///{tmp_path_factory.mktemp('chdb')}")
    for table in TABLES:
        clickhouse.do(f"TRUNCATE TABLE {table}")
        rows = sqlite.rows(f"SELECT * FROM {table}")  # noqa: S608  # our names
        clickhouse.insert(table, [{name: row[name] for name in row if name not in MADE} for row in rows])
    yield sqlite, clickhouse
    clickhouse.close()


@pytest.mark.parametrize("name", ASKED)
def test_both_answer_the_same(both: tuple[SqliteDatabase, Clickhouse], seeded: Seeded, name: str) -> None:
    job = one_job(both[0], seeded.jobs - 5)
    assert job is not None
    sqlite, clickhouse = (plain(ASKED[name](database, job)) for database in both)
    assert_same(clickhouse, sqlite)


def plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def assert_same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, dict):
        made = {name: value for name, value in wanted.items() if name not in MADE}
        assert made.keys() <= found.keys()
        for name, value in made.items():
            assert_same(found[name], value)
    elif isinstance(wanted, list | tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other)
    elif isinstance(wanted, float):
        # Sums are made in another order.
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-3)
    else:
        assert found == wanted
