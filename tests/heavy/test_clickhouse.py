"""Rows in ClickHouse, its own engine in this process: the same as in SQLite, whatever comes."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ci.store.clickhouse import Clickhouse, ClickhouseRowStore, bind
from ci.store.identity import stored_number
from ci.store.row_store import RowStore, SqliteRowStore
from ci.store.rows import Job, TestRun
from ci.store.store import Store
from ci.store.uploads import ABANDONED_S, Incoming, UploadRefusedError, Uploads

pytestmark = pytest.mark.nightly

REPOSITORY = "o/r"
JOBS = [Job(workflow_id=number, workflow_run_attempt=1, job_id=number + 10) for number in (1, 2)]
TABLES = {
    "test_run": "SELECT * FROM test_run",
    "job_card": "SELECT * FROM job_card",
    "job_verdict": "SELECT * FROM job_verdict",
    "test_run_summary": "SELECT * FROM test_run_summary",
    "failed_test_runs": "SELECT * FROM failed_test_runs",
}


@pytest.fixture(scope="module")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clickhouse]:
    pytest.importorskip("chdb", reason="chdb is not installed")
    clickhouse = Clickhouse(f"chdb:///{tmp_path_factory.mktemp('chdb')}")
    yield clickhouse
    clickhouse.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "hud.sqlite")
    report(store)
    yield store
    store.close()


def report(store: Store) -> None:
    with store.transaction() as connection:
        for job in JOBS:
            connection.execute(
                "INSERT INTO crcr_workflow_job (dynamoKey, downstream_repo, run_id, run_attempt, job_id) "
                "VALUES (?, ?, ?, 1, ?)",
                (
                    str(job.job_id),
                    REPOSITORY,
                    str(job.workflow_id),
                    stored_number(job.job_id, repository=REPOSITORY),
                ),
            )


def row(rng: random.Random, job: Job) -> TestRun:
    made: dict[str, Any] = job.keys() | {
        "name": rng.choice(["a", "b", "ü'\"\\\n\t\0", ":x {y:Int64}"]),
        "classname": rng.choice(["", "TestA"]),
        "file": "t.py",
        "invoking_file": "t",
        "time": rng.choice([0.0, 0.5, 1e6]),
    }
    for tag in ("failure", "error", "skipped", "rerun"):
        if rng.random() < 0.2:
            made[tag] = {"message": rng.choice(["no", "<script>", "é"]), "type": "signal"}
    if rng.random() < 0.5:
        made["properties"] = {"property": {"name": "id", "value": f"t.py::{made['name']}"}}
        made["system-out"] = {"text": f"card: card{rng.randrange(3)}\nattempts: {rng.randrange(1, 4)}"}
    if rng.random() < 0.3:
        made["line"] = rng.randrange(1000)
    return msgspec.convert(made, TestRun)


def tables(ask: Any) -> dict[str, list[tuple[Any, ...]]]:
    return {table: sorted((_told(row) for row in ask(query)), key=repr) for table, query in TABLES.items()}


def _told(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(sorted((key, value) for key, value in row.items() if key not in {"id", "upload_id"}))


@pytest.mark.parametrize("seed", range(5))
def test_both_stores_hold_the_same_after_the_same_uploads(
    tmp_path: Path, store: Store, clickhouse: Clickhouse, seed: int
) -> None:
    twin = Store(tmp_path / "twin.sqlite")
    report(twin)
    for table in ("test_run", "job_card", "test_run_summary"):
        clickhouse.do(f"TRUNCATE TABLE {table}")
    rng = random.Random(seed)  # noqa: S311  # no secret
    kept: list[RowStore] = [SqliteRowStore(store.transaction), ClickhouseRowStore(clickhouse)]
    both = [Uploads(store, kept[0]), Uploads(twin, kept[1])]
    for step in range(12):
        job = rng.choice(JOBS)
        rows = [row(rng, job) for _ in range(rng.randrange(6))]
        incoming = Incoming(
            repository=REPOSITORY, job=job, kind="junit", name=rng.choice("xy"), sha256=f"{step}"
        )
        receipts = [uploads.take(incoming, rows, at=0) for uploads in both]
        assert receipts[0] == receipts[1]
        assert tables(store.database.rows) == tables(clickhouse.rows), (seed, step)
    twin.close()


def test_what_is_cut_off_leaves_nothing(store: Store, clickhouse: Clickhouse) -> None:
    def broken() -> Iterator[TestRun]:
        yield row(random.Random(1), JOBS[0])  # noqa: S311  # no secret
        raise UploadRefusedError(400, "cut")

    for table in ("test_run", "job_card", "test_run_summary"):
        clickhouse.do(f"TRUNCATE TABLE {table}")
    uploads = Uploads(store, ClickhouseRowStore(clickhouse))
    incoming = Incoming(repository=REPOSITORY, job=JOBS[0], kind="test_run", name="n", sha256="0")
    uploads.take(incoming, [row(random.Random(2), JOBS[0])], at=0)  # noqa: S311  # no secret
    before = tables(clickhouse.rows)
    with pytest.raises(UploadRefusedError, match="cut"):
        uploads.take(replace(incoming, sha256="1"), broken(), at=0)
    assert tables(clickhouse.rows) == before
    assert clickhouse.rows("SELECT id FROM upload_hidden") == []


class Killed(ClickhouseRowStore):
    """Rows in ClickHouse whose process ends once it has let a number of uploads be seen."""

    shows = 0

    def show(self, uploads: Iterable[int]) -> None:
        super().show(uploads)
        self.shows -= 1
        if self.shows == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("killed", ["before the list knows", "after"])
def test_a_server_that_is_killed_at_the_end_of_a_file_leaves_the_old_one_or_the_new(
    store: Store, clickhouse: Clickhouse, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    for table in ("test_run", "job_card", "test_run_summary", "upload_hidden"):
        clickhouse.do(f"TRUNCATE TABLE {table}")
    rows = Killed(clickhouse)
    uploads = Uploads(store, rows)
    incoming = Incoming(repository=REPOSITORY, job=JOBS[0], kind="test_run", name="n", sha256="0")
    old, new = ([row(random.Random(seed), JOBS[0]) for seed in many] for many in (range(3), range(5)))  # noqa: S311
    uploads.take(incoming, old, at=0)
    before = tables(clickhouse.rows)
    # Of a process that ends there, nothing takes anything back.
    monkeypatch.setattr(uploads, "_take_back", lambda _: None)
    rows.shows = 1 if killed == "before the list knows" else 2
    with pytest.raises(KeyboardInterrupt):
        uploads.take(replace(incoming, sha256="1"), new, at=0)
    Uploads(store, ClickhouseRowStore(clickhouse)).clean(at=2 * ABANDONED_S)
    if killed == "before the list knows":
        assert tables(clickhouse.rows) == before
    else:
        assert clickhouse.rows("SELECT count(*) AS n FROM settled_test_run") == [{"n": 5}]
    (counted,) = clickhouse.rows("SELECT sum(tests) AS n FROM job_card")
    assert [counted] == clickhouse.rows("SELECT count(*) AS n FROM test_run")
    assert clickhouse.rows("SELECT id FROM upload_hidden") == []


def test_what_a_killed_server_let_be_seen_is_not_counted_beside_what_comes_again(
    store: Store, clickhouse: Clickhouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for table in ("test_run", "job_card", "test_run_summary", "upload_hidden"):
        clickhouse.do(f"TRUNCATE TABLE {table}")
    rows = Killed(clickhouse)
    uploads = Uploads(store, rows)
    monkeypatch.setattr(uploads, "_take_back", lambda _: None)
    rows.shows = 1
    incoming = Incoming(repository=REPOSITORY, job=JOBS[0], kind="test_run", name="n", sha256="0")
    tests = [row(random.Random(seed), JOBS[0]) for seed in range(3)]  # noqa: S311  # no secret
    with pytest.raises(KeyboardInterrupt):
        uploads.take(incoming, tests, at=0)
    Uploads(store, ClickhouseRowStore(clickhouse)).take(incoming, tests, at=0)
    assert clickhouse.rows("SELECT count(*) AS n FROM settled_test_run") == [{"n": 3}]
    assert clickhouse.rows("SELECT sum(tests) AS n FROM job_card") == [{"n": 3}]


class Meanwhile(ClickhouseRowStore):
    """Rows in ClickHouse of which something else happens just before some are hidden."""

    act: Callable[[], object] | None = None

    def hide(self, uploads: Iterable[int]) -> None:
        numbers = [*uploads]
        act, self.act = self.act, None
        if act is not None:
            act()
        super().hide(numbers)


def test_a_file_that_is_done_while_another_is_cleaned_away_is_seen(
    store: Store, clickhouse: Clickhouse
) -> None:
    for table in ("test_run", "job_card", "test_run_summary", "upload_hidden"):
        clickhouse.do(f"TRUNCATE TABLE {table}")
    rows = Meanwhile(clickhouse)
    uploads, arrived, go = Uploads(store, rows), threading.Event(), threading.Event()
    job, incoming = JOBS[0], Incoming(repository=REPOSITORY, job=JOBS[0], kind="junit", name="n", sha256="0")

    def slow() -> Iterator[TestRun]:
        yield from (row(random.Random(seed), job) for seed in range(3))  # noqa: S311  # no secret
        arrived.set()
        assert go.wait(60)

    with store.transaction() as connection:
        numbers = (job.workflow_id, stored_number(job.job_id, repository=REPOSITORY))
        connection.execute(
            "INSERT INTO upload (workflow_id, workflow_run_attempt, job_id, kind, name, sha256, state, at) "
            "VALUES (?, 1, ?, 'junit', 'cut off', '1', 'COMING', 0)",
            numbers,
        )
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(uploads.take, incoming, slow(), at=2 * ABANDONED_S)
        assert arrived.wait(60)

        def finish() -> None:
            go.set()
            wait([taken], timeout=3)

        rows.act = finish
        assert uploads.clean(at=2 * ABANDONED_S) == 1
        assert taken.result(60).stored == 3
    assert clickhouse.rows("SELECT count(*) AS n FROM settled_test_run") == [{"n": 3}]
    assert clickhouse.rows("SELECT sum(tests) AS n FROM job_card") == [{"n": 3}]


def test_rows_of_a_file_on_its_way_are_not_seen(store: Store, clickhouse: Clickhouse) -> None:
    def rows() -> Iterator[TestRun]:
        yield from (row(random.Random(seed), JOBS[1]) for seed in range(50_000))  # noqa: S311  # no secret
        assert clickhouse.rows("SELECT count(*) AS n FROM settled_test_run") == [{"n": 0}]

    clickhouse.do("TRUNCATE TABLE test_run")  # of other stores, whose uploads have the same numbers
    uploads = Uploads(store, ClickhouseRowStore(clickhouse))
    incoming = Incoming(repository=REPOSITORY, job=JOBS[1], kind="test_run", name="n", sha256="0")
    assert uploads.take(incoming, rows(), at=0).stored == 50_000
    assert clickhouse.rows("SELECT count(*) AS n FROM settled_test_run") == [{"n": 50_000}]


def test_a_jobs_times_are_text_as_in_sqlite(clickhouse: Clickhouse) -> None:
    told = {"dynamoKey": "k", "run_id": "42", "run_attempt": 1, "started_at": "2026-08-01T02:00:00.000001Z"}
    done = {"completed_at": "2026-08-01T02:00:05.500000Z"}
    clickhouse.insert("crcr_workflow_job", [told | {"_inserted_at": "2026-08-01T02:00:00Z"}])
    clickhouse.insert("crcr_workflow_job", [told | done | {"_inserted_at": "2026-08-01T02:00:06Z"}])
    query = "SELECT * FROM crcr_workflow_job_ranked WHERE started_at >= :since"
    (found,) = clickhouse.rows(query, {"since": "2026-08-01T02:00:00.000001Z"})
    assert (found["started_at"], found["completed_at"]) == (told["started_at"], done["completed_at"])
    assert (found["duration_seconds"], found["superseded"], found["workflow_id"]) == (5.5, 0, 42)
    assert clickhouse.rows(query, {"since": "2026-08-01T02:00:00.000002Z"}) == []


def test_jobs_and_rows_name_a_job_in_the_same_types(clickhouse: Clickhouse) -> None:
    # Of two types, a join takes every pair of a job and a row and compares them afterwards.
    names = ("workflow_id", "workflow_run_attempt", "job_id")
    types = {
        table: {row["name"]: row["type"] for row in clickhouse.rows(f"DESCRIBE TABLE {table}")}
        for table in ("crcr_workflow_job_ranked", "settled_test_run", "job_card", "test_run_summary")
    }
    of_jobs = {name: types["crcr_workflow_job_ranked"][name] for name in names}
    for found in types.values():
        assert {name: found[name] for name in names} == of_jobs


def test_values_are_bound_and_never_text() -> None:
    query, values = bind("SELECT :a, x::Int8 WHERE y = :b AND z IS :c", {"a": 1, "b": "'; DROP", "c": None})
    assert query == "SELECT {a:Int64}, x::Int8 WHERE y = {b:String} AND z IS NULL"
    assert values == {"a": 1, "b": "'; DROP"}
