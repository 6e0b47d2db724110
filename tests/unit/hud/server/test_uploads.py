"""Taking files of rows: whole or not at all, once, and counted."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ci.hud.rows import Job, Row
from ci.hud.server.row_store import SqliteRowStore
from ci.hud.server.row_values import Totals
from ci.hud.server.store import Store
from ci.hud.server.uploads import Incoming, Receipt, UploadKind, UploadRefusedError, Uploads

REPOSITORY = "o/r"
JOB = Job(workflow_id=1, workflow_run_attempt=1, job_id=7)
REPORT = """
INSERT INTO crcr_workflow_job (dynamoKey, downstream_repo, run_id, run_attempt, job_id)
VALUES (?, ?, '1', 1, 7)
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "hud.sqlite")
    with store.transaction() as connection:
        connection.execute(REPORT, ("k", REPOSITORY))
    yield store
    store.close()


@pytest.fixture
def uploads(store: Store) -> Uploads:
    return Uploads(store, SqliteRowStore(store.transaction))


def row(name: str = "a", **more: Any) -> Row:
    return JOB.keys() | {
        "name": name,
        "classname": "C",
        "file": "t.py",
        "invoking_file": "t",
        "time": 0.5,
        **more,
    }


def incoming(kind: UploadKind = "test_run", name: str = "f", sha: str = "0") -> Incoming:
    return Incoming(repository=REPOSITORY, job=JOB, kind=kind, name=name, sha256=sha)


def summary(tests: int, failures: int = 0) -> Row:
    counts = {"tests": tests, "failures": failures, "errors": 0, "skipped": 0, "successes": tests - failures}
    return JOB.keys() | {"invoking_file": "t", "file": "t.py", "classname": "C", "time": 1.0, **counts}


def stored(store: Store) -> list[str]:
    return [row["name"] for row in store.database.rows("SELECT name FROM test_run ORDER BY name")]


def verdicts(store: Store) -> dict[str, int]:
    return {row["verdict"]: row["tests"] for row in store.database.rows("SELECT * FROM job_verdict")}


def then(rows: Sequence[Row], act: Callable[[], object]) -> Iterator[Row]:
    yield from rows
    act()


def refuse() -> None:
    raise UploadRefusedError(400, "cut off")


def test_files_of_a_job_add_up(store: Store, uploads: Uploads) -> None:
    failure = {"failure": {"message": "no"}}
    uploads.take(incoming(name="1"), [row("a"), row("b", **failure)], at=0)
    receipt = uploads.take(incoming(name="2"), [row("a"), row("a")], at=0)
    assert receipt == Receipt(sent=2, stored=2)
    assert verdicts(store) == {"passed": 3, "failed": 1}
    (counts,) = store.database.rows("SELECT * FROM test_run_summary")
    assert (counts["tests"], counts["failures"], counts["successes"], counts["time"]) == (4, 1, 3, 2.0)
    places = store.database.rows("SELECT place, count(*) AS number FROM test_run GROUP BY place")
    assert places == [{"place": 0, "number": 3}, {"place": 1, "number": 1}]


def test_a_file_that_breaks_off_leaves_what_was_there(store: Store, uploads: Uploads) -> None:
    uploads.take(incoming(), [row("old")], at=0)
    with pytest.raises(UploadRefusedError, match="cut off"):
        uploads.take(incoming(sha="1"), then([row("new")] * 6000, refuse), at=0)
    assert (stored(store), verdicts(store)) == (["old"], {"passed": 1})
    assert uploads.take(incoming(), [], at=0).unchanged == "the same file is here"


def test_of_two_that_send_one_file_at_once_the_later_one_wins(store: Store, uploads: Uploads) -> None:
    def again() -> None:
        assert uploads.take(incoming(), [row("later")], at=0) == Receipt(sent=1, stored=1)

    with pytest.raises(UploadRefusedError, match="sent again meanwhile") as caught:
        uploads.take(incoming(), then([row("earlier")] * 6000, again), at=0)
    assert caught.value.status == 409
    assert (stored(store), verdicts(store)) == (["later"], {"passed": 1})


def test_what_a_killed_server_left_is_taken_back_and_can_come_again(store: Store, uploads: Uploads) -> None:
    uploads.take(incoming(), [row("old")], at=0)
    left = uploads._begin(incoming(sha="1"), 100)
    assert not isinstance(left, Receipt)
    uploads._insert([row("half")], left.number, Totals())
    assert uploads.clean(at=3000) == 0
    assert stored(store) == ["half", "old"]
    assert uploads.clean(at=4000) == 1
    assert stored(store) == ["old"]
    uploads._insert([row("half")], _begun(uploads), Totals())
    assert uploads.take(incoming(sha="2"), [row("new")], at=5000) == Receipt(sent=1, stored=1)
    assert (stored(store), verdicts(store)) == (["new"], {"passed": 1})


def test_a_row_that_is_not_stored_is_told_of(
    store: Store, uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqliteRowStore, "count", lambda *_: 1)
    with pytest.raises(
        UploadRefusedError, match="2 rows were sent and 1 are stored; send it again"
    ) as caught:
        uploads.take(incoming(), [row("a"), row("b")], at=0)
    assert caught.value.status == 500
    assert (stored(store), verdicts(store)) == ([], {})


def test_a_large_file_goes_in_pieces_and_whole(
    store: Store, uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci.hud.server.row_store.REMOVED_AT_A_TIME", 4)
    uploads.take(incoming(name="1"), [row(f"a{number}") for number in range(10)], at=0)
    uploads.take(incoming(name="2"), [row("kept")], at=0)
    uploads.take(incoming(name="1", sha="1"), [row("b") for _ in range(8)], at=0)
    assert stored(store) == [*["b"] * 8, "kept"]


def test_a_jobs_tests_come_in_one_layout_only(store: Store, uploads: Uploads) -> None:
    uploads.take(incoming("junit"), [row("a")], at=0)
    with pytest.raises(UploadRefusedError, match="came as junit; send them in one layout only") as caught:
        uploads.take(incoming("test_run"), [row("a")], at=0)
    assert caught.value.status == 409
    assert stored(store) == ["a"]


def test_counts_alone_are_taken_and_give_way_to_the_tests_themselves(store: Store, uploads: Uploads) -> None:
    uploads.take(incoming("test_run_summary", name="x"), [summary(9)], at=0)
    uploads.take(incoming("test_run_summary", name="y", sha="1"), [summary(10, 2)], at=0)
    assert verdicts(store) == {"passed": 8, "failed": 2}
    uploads.take(incoming("failed_test_runs"), [row("a", error={"message": "no"})], at=0)
    assert (stored(store), verdicts(store)) == (["a"], {"passed": 8, "failed": 2})
    uploads.take(incoming("test_run"), [row("a", error={"message": "no"}), row("b")], at=0)
    assert (stored(store), verdicts(store)) == (["a", "b"], {"passed": 1, "failed": 1})
    late = uploads.take(incoming("test_run_summary"), [summary(5)], at=0)
    assert late.unchanged == "the job's tests are here in full"
    assert verdicts(store) == {"passed": 1, "failed": 1}


def test_a_job_is_its_repositorys_alone(store: Store, uploads: Uploads) -> None:
    with store.transaction() as connection:
        connection.execute(REPORT, ("other", "somebody/else"))
    with pytest.raises(UploadRefusedError, match="another repository's") as caught:
        uploads.take(incoming(), [row()], at=0)
    assert caught.value.status == 403


def _begun(uploads: Uploads) -> int:
    begun = uploads._begin(incoming(sha="2"), 4500)
    assert not isinstance(begun, Receipt)
    return begun.number


def counts(store: Store) -> list[int]:
    query = (
        "SELECT (SELECT sum(tests) FROM job_card) AS cards, (SELECT sum(tests) FROM test_run_summary) AS all_"
    )
    return [int(value) for value in store.database.rows(query)[0].values()]


def test_a_file_on_its_way_is_not_counted_by_another_that_is_replaced(store: Store) -> None:
    rows = SqliteRowStore(store.transaction)
    rows.chunk_rows = 1
    uploads = Uploads(store, rows)
    uploads.take(incoming(name="a"), [row("a")], at=1)

    def slow() -> Iterator[Row]:
        yield row("b")
        yield row("c")
        yield row("d")
        uploads.take(incoming(name="a", sha="1"), [row("e")], at=2)
        yield row("f")

    uploads.take(incoming(name="b"), slow(), at=1)
    assert stored(store) == ["b", "c", "d", "e", "f"]
    assert counts(store) == [5, 5]


def test_a_file_that_was_sent_again_at_its_very_end_leaves_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = SqliteRowStore(store.transaction)
    uploads = Uploads(store, rows)
    uploads.take(incoming(), [row("old")], at=1)
    check = uploads._check_current  # the moment after it is what is tested

    def checked(number: int) -> None:
        check(number)
        if stored(store) == ["new", "old"]:
            with store.transaction() as connection:
                connection.execute("DELETE FROM upload WHERE id = ?", (number,))

    monkeypatch.setattr(uploads, "_check_current", checked)
    with pytest.raises(UploadRefusedError, match="sent again meanwhile"):
        uploads.take(incoming(sha="1"), [row("new")], at=2)
    assert (stored(store), counts(store)) == (["old"], [1, 1])


def test_a_full_disk_takes_back_what_was_stored_and_the_next_try_is_whole(store: Store) -> None:
    uploads = Uploads(store, SqliteRowStore(store.transaction))
    with store.alone() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 20}")
    many = [row(str(number) + "x" * 200) for number in range(2000)]
    with pytest.raises(sqlite3.OperationalError, match="full"):
        uploads.take(incoming(), [dict(one) for one in many], at=1)
    with store.alone() as connection:
        connection.execute("PRAGMA max_page_count = 1000000")
    assert uploads.take(incoming(), many, at=2).stored == 2000
    assert counts(store) == [2000, 2000]
