"""What pages and routes ask, asked of ClickHouse: the same answers as of SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, is_dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from ci.hud.server.queries import compare as compare_module
from ci.hud.server.queries import tests_of_run
from ci.hud.server.queries.compare import KINDS, compare_runs
from ci.hud.server.queries.jobs import one_job
from ci.hud.server.queries.tests_of_run import run_tests
from ci.store.clickhouse import Clickhouse
from ci.store.database import SqliteDatabase
from tests.hud_seed import Seeded, seed
from tests.unit.hud.server.asked import ASKED, END
from tests.unit.hud.server.plain_compare import compare, sides_of

pytestmark = pytest.mark.nightly

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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("many", [0, 5000])
def test_two_runs_are_compared_as_test_by_test(
    both: tuple[SqliteDatabase, Clickhouse],
    seeded: Seeded,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    many: int,
) -> None:
    monkeypatch.setattr(compare_module, "MANY", many)
    jobs = [one_job(both[0], seeded.jobs - back) for back in (11, 5)]
    before, after = (job or {} for job in jobs)
    query = "SELECT * FROM test_run WHERE job_id = :job"
    sides = [sides_of(both[0].rows(query, {"job": job["job_id"]})) for job in (before, after)]
    assert min(map(len, sides)) > 5
    for offset in (0, 3):
        wanted = compare(sides[0], sides[1], kind=kind, limit=4, offset=offset)
        for database in both:
            assert compare_runs(database, before, after, kind=kind, limit=4, offset=offset) == wanted


@pytest.mark.parametrize("order", ["verdict", "time"])
def test_pages_far_down_are_the_same(
    both: tuple[SqliteDatabase, Clickhouse], seeded: Seeded, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    job = one_job(both[0], seeded.jobs - 5)
    assert job is not None
    wanted = run_tests(both[0], job, limit=1000, order=order)[1]
    monkeypatch.setattr(tests_of_run, "FAR", 0)
    for database in both:
        pages = [
            run_tests(database, job, limit=7, offset=at, order=order)[1] for at in range(0, len(wanted), 7)
        ]
        assert [one for page in pages for one in page] == wanted


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
