"""A file of so many rows of tests taken into the HUD store, beside the database's own way with the same rows.

Ours is the whole way of an upload behind its request: the packed file is read, each row is checked and told a
verdict, stored, counted and listed. SQLite's own is `executemany` of the finished values into the same table
without an index, ClickHouse's own (in this process, by chdb) reads the finished rows from a file of JSON
lines.
"""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from ci.store.clickhouse import Clickhouse, ClickhouseRowStore
from ci.store.identity import stored_number
from ci.store.row_files import RowWriter, read_rows, unpacked
from ci.store.row_store import RowStore, SqliteRowStore
from ci.store.row_values import COLUMNS, stored_rows
from ci.store.rows import Job, Outcome, Properties, Property, Said, TestRun
from ci.store.schema import TESTS
from ci.store.store import Store
from ci.store.uploads import Incoming, Uploads

JOB = Job(workflow_id=1, workflow_run_attempt=1, job_id=2)
REPOSITORY = "o/r"
BARS = {"sqlite": 4.5, "clickhouse": 2.3}
FILES, CARDS, EVERY = 200, 24, 100
REPORTED = """
INSERT OR IGNORE INTO crcr_workflow_job (dynamoKey, downstream_repo, run_id, run_attempt, job_id)
VALUES ('k', 'o/r', '1', 1, ?)
"""


def made_rows(number: int) -> Iterator[TestRun]:
    """Rows as a run of ours has them: an id, a card, and one failure in EVERY."""
    for index in range(number):
        file = f"test_{index % FILES}"
        name = f"test_binary_ufuncs_{index // FILES}[dtype=float32,op=add_{index}]"
        row = TestRun(
            workflow_id=JOB.workflow_id,
            workflow_run_attempt=JOB.workflow_run_attempt,
            job_id=JOB.job_id,
            classname="TestBinaryUfuncs",
            name=name,
            file=f"{file}.py",
            invoking_file=file,
            time=0.01,
            properties=Properties(property=Property(name="id", value=f"{file}.py::TestBinaryUfuncs::{name}")),
            system_out=Said(text=f"card: card{index % CARDS}"),
        )
        if index % EVERY == 0:
            row.failure = Outcome(message="Tensor-likes are not close!", type="failed", text="at\n" * 40)
        yield row


def measure(*, rows: int, rounds: int) -> dict[str, Any]:
    """Seconds of each way, by database; every round has one turn of each."""
    found: dict[str, Any] = {"rows": rows, "rounds": rounds, "databases": {}}
    with tempfile.TemporaryDirectory(prefix="spyre-ci-bench-") as name:
        folder = Path(name)
        packed = folder / "rows.jsonl.gz"
        with packed.open("wb") as stream, RowWriter(stream) as writer:
            for row in made_rows(rows):
                writer.write(row)
        sqlite = [_sqlite_ours(folder, packed), _sqlite_own(folder, rows)]
        found["databases"]["sqlite"] = _rounds(sqlite, rounds)
        with closing(Clickhouse(f"chdb:///{folder / 'chdb'}")) as clickhouse:
            both = [_clickhouse_ours(folder, packed, clickhouse), _clickhouse_own(folder, rows, clickhouse)]
            found["databases"]["clickhouse"] = _rounds(both, rounds)
    return found


def show(found: dict[str, Any]) -> None:
    """As lines."""
    print(f"\n{found['rows']:,} rows of tests into the HUD store, medians of {found['rounds']} rounds")
    for name, (ours, own) in found["databases"].items():
        mine, its = statistics.median(ours), statistics.median(own)
        told = f"ours {mine:6.1f} s, its own way {its:6.1f} s: {mine / its:.2f} (bar {BARS[name]})"
        print(f"  {name:<11} {told}")


def _rounds(ways: list[Callable[[], None]], rounds: int) -> list[list[float]]:
    took: list[list[float]] = [[] for _ in ways]
    for number in range(rounds):
        # Who begins changes: memory that was given back costs whoever comes first.
        for place in sorted(range(len(ways)), reverse=bool(number % 2)):
            began = time.perf_counter()
            ways[place]()
            took[place].append(time.perf_counter() - began)
    return took


def _take(store: Store, rows: RowStore, packed: Path) -> None:
    with store.transaction() as connection:
        connection.execute(REPORTED, (stored_number(JOB.job_id, repository=REPOSITORY),))
        connection.execute("DELETE FROM upload")
    incoming = Incoming(repository=REPOSITORY, job=JOB, kind="test_run", name="rows", sha256="0")
    with packed.open("rb") as stream:
        read = read_rows(unpacked(stream), JOB, name="rows")
        Uploads(store, rows).take(incoming, read, at=0)


def _sqlite_ours(folder: Path, packed: Path) -> Callable[[], None]:
    def way() -> None:
        for path in folder.glob("ours.sqlite*"):
            path.unlink()
        with closing(Store(folder / "ours.sqlite")) as store:
            _take(store, SqliteRowStore(store.transaction), packed)

    return way


def _sqlite_own(folder: Path, rows: int) -> Callable[[], None]:
    values = [msgspec.structs.astuple(row) for row in stored_rows(made_rows(rows), JOB, upload=1)]
    insert = f"INSERT INTO test_run ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608

    def way() -> None:
        for path in folder.glob("own.sqlite*"):
            path.unlink()
        with closing(sqlite3.connect(folder / "own.sqlite")) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(TESTS.sqlite()[0])
            connection.executemany(insert, values)
            connection.commit()

    return way


def _clickhouse_ours(folder: Path, packed: Path, clickhouse: Clickhouse) -> Callable[[], None]:
    def way() -> None:
        for table in ("test_run", "job_card", "test_run_summary"):
            clickhouse.do(f"TRUNCATE TABLE {table}")
        with closing(Store(folder / "ledger.sqlite")) as store:
            _take(store, ClickhouseRowStore(clickhouse), packed)

    return way


def _clickhouse_own(folder: Path, rows: int, clickhouse: Clickhouse) -> Callable[[], None]:
    file = folder / "finished.jsonl"
    with file.open("wb") as stream:
        for row in stored_rows(made_rows(rows), JOB, upload=1):
            stream.write(msgspec.json.encode(msgspec.structs.asdict(row)) + b"\n")
    clickhouse.do("CREATE TABLE own AS test_run")

    def way() -> None:
        clickhouse.do("TRUNCATE TABLE own")
        clickhouse.do(f"INSERT INTO own SELECT * FROM file('{file}', 'JSONEachRow')")  # noqa: S608

    return way
