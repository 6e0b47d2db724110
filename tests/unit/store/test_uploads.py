"""Taking files of rows: whole or not at all, once, and counted."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ci.store.identity import stored_number
from ci.store.prune import prune
from ci.store.row_store import SqliteRowStore
from ci.store.rows import Job, TestRun
from ci.store.store import Store
from ci.store.uploads import Incoming, Receipt, UploadKind, UploadRefusedError, Uploads

REPOSITORY = "o/r"
JOB = Job(workflow_id=1, workflow_run_attempt=1, job_id=7)
REPORT = """
INSERT INTO crcr_workflow_job (dynamoKey, downstream_repo, job_name, run_id, run_attempt, job_id)
VALUES (?, ?, ?, '1', 1, ?)
"""

LEFT = """
INSERT INTO upload (workflow_id, workflow_run_attempt, job_id, kind, name, sha256, state, at)
VALUES (1, 1, ?, 'test_run', 'f', '1', ?, 100)
"""


def report(store: Store, repository: str = REPOSITORY, *, name: str = "j") -> None:
    number = stored_number(JOB.job_id, repository=repository)
    with store.transaction() as connection:
        connection.execute(REPORT, (f"{repository}/{name}", repository, name, number))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "hud.sqlite")
    report(store)
    yield store
    store.close()


@pytest.fixture
def uploads(store: Store) -> Uploads:
    return Uploads(store, SqliteRowStore(store.transaction))


def row(name: str = "a", **more: Any) -> TestRun:
    said = {"name": name, "classname": "C", "file": "t.py", "invoking_file": "t", "time": 0.5}
    return msgspec.convert(JOB.keys() | said | more, TestRun)


def incoming(kind: UploadKind = "test_run", name: str = "f", sha: str = "0") -> Incoming:
    return Incoming(repository=REPOSITORY, job=JOB, kind=kind, name=name, sha256=sha)


def stored(store: Store) -> list[str]:
    return [row["name"] for row in store.database.rows("SELECT name FROM test_run ORDER BY name")]


def verdicts(store: Store) -> dict[str, int]:
    return {row["verdict"]: row["tests"] for row in store.database.rows("SELECT * FROM job_verdict")}


def then(rows: Sequence[TestRun], act: Callable[[], object]) -> Iterator[TestRun]:
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

    with pytest.raises(UploadRefusedError, match="took its place meanwhile") as caught:
        uploads.take(incoming(), then([row("earlier")] * 6000, again), at=0)
    assert caught.value.status == 409
    assert (stored(store), verdicts(store)) == (["later"], {"passed": 1})


def test_what_a_killed_server_left_is_never_seen_and_can_come_again(store: Store, uploads: Uploads) -> None:
    uploads.take(incoming(), [row("old")], at=0)
    # As a process leaves them that is killed before the end, and one killed after it.
    for name, state in (("half", "COMING"), ("replaced", "GOING")):
        with store.transaction() as connection:
            connection.execute(LEFT, (stored_number(JOB.job_id, repository=REPOSITORY), state))
            connection.execute(
                "INSERT INTO test_run (workflow_id, job_id, name, upload_id) "
                "SELECT workflow_id, job_id, ?, id FROM upload WHERE state = ?",
                (name, state),
            )
    assert stored(store) == ["half", "old", "replaced"]
    assert uploads.clean(at=3000) == 1
    assert stored(store) == ["half", "old"]
    assert uploads.take(incoming(sha="2"), [row("new")], at=3000) == Receipt(sent=1, stored=1)
    seen = store.database.rows("SELECT name FROM settled_test_run")
    assert (seen, verdicts(store)) == ([{"name": "new"}], {"passed": 1})
    assert uploads.clean(at=4000) == 1
    assert (stored(store), counts(store)) == (["new"], [1, 1])


@pytest.mark.parametrize(
    ("status", "said", "kind", "meanwhile"),
    [
        (409, "came as junit; send them in one layout only", "test_run", ""),
        (409, "came as junit; send them in one layout only", "test_run", "junit"),
        (409, r"2 jobs have this run.*: .* / j, .* / k; give each", "junit", "job"),
        (500, "2 rows were sent and 1 are stored; send it again", "junit", "lost"),
        (400, "7 rows were announced, and the file has 2", "junit", "said"),
        (413, "more than 1 tests in a file: send it in parts", "junit", "many"),
    ],
)
def test_what_is_not_taken_is_told_and_leaves_what_was_there(
    store: Store,
    uploads: Uploads,
    monkeypatch: pytest.MonkeyPatch,
    *,
    status: int,
    said: str,
    kind: UploadKind,
    meanwhile: str,
) -> None:
    def before() -> None:
        uploads.take(incoming("junit"), [row("there")], at=0)

    sent, rows = incoming(kind, "g"), then([row("a"), row("b")], before if meanwhile == "junit" else int)
    if meanwhile != "junit":
        before()
    if meanwhile == "job":
        report(store, name="k")
    elif meanwhile == "lost":
        monkeypatch.setattr(SqliteRowStore, "count", lambda *_: 1)
    elif meanwhile == "said":
        sent = replace(sent, rows=7)
    elif meanwhile == "many":
        monkeypatch.setattr("ci.store.uploads.MOST_ROWS", 1)
    with pytest.raises(UploadRefusedError, match=said) as caught:
        uploads.take(sent, rows, at=0)
    assert caught.value.status == status
    assert (stored(store), verdicts(store)) == (["there"], {"passed": 1})


def test_a_file_whose_job_is_pruned_while_it_comes_is_refused(
    store: Store, uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = SqliteRowStore.count

    def pruned(rows: SqliteRowStore, job: Job, upload: int) -> int:
        with store.transaction() as connection:
            connection.execute("UPDATE crcr_workflow_job SET _inserted_at = '2000'")
        prune(store, rows, before=1e9, at=1e9)
        return count(rows, job, upload)

    monkeypatch.setattr(SqliteRowStore, "count", pruned)
    with pytest.raises(UploadRefusedError, match="its job was pruned") as caught:
        uploads.take(incoming(), [row("a"), row("b")], at=0)
    assert caught.value.status == 409
    assert (stored(store), verdicts(store)) == ([], {})


def test_a_large_file_goes_in_pieces_and_whole(
    store: Store, uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ci.store.row_store.REMOVED_AT_A_TIME", 4)
    uploads.take(incoming(name="1"), [row(f"a{number}") for number in range(10)], at=0)
    uploads.take(incoming(name="2"), [row("kept")], at=0)
    uploads.take(incoming(name="1", sha="1"), [row("b") for _ in range(8)], at=0)
    assert stored(store) == [*["b"] * 8, "kept"]


def test_what_another_repository_says_of_the_same_numbers_is_its_own(store: Store, uploads: Uploads) -> None:
    uploads.take(incoming(), [row("mine")], at=0)
    other = replace(incoming(), repository="somebody/else")
    with pytest.raises(UploadRefusedError, match="somebody/else reported no such job") as caught:
        uploads.take(other, [row("theirs")], at=0)
    assert caught.value.status == 404
    report(store, "somebody/else")
    uploads.take(other, [row("theirs"), row("theirs too")], at=0)
    uploads.take(incoming(name="more"), [row("mine too")], at=0)
    counts = store.database.rows(
        "SELECT downstream_repo AS repo, sum(tests) AS tests FROM job_verdict JOIN crcr_workflow_job "
        "USING (job_id) GROUP BY downstream_repo ORDER BY downstream_repo"
    )
    assert counts == [{"repo": REPOSITORY, "tests": 2}, {"repo": "somebody/else", "tests": 2}]


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

    def slow() -> Iterator[TestRun]:
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
    with pytest.raises(UploadRefusedError, match="took its place meanwhile"):
        uploads.take(incoming(sha="1"), [row("new")], at=2)
    assert (stored(store), counts(store)) == (["old"], [1, 1])


def test_a_full_disk_takes_back_what_was_stored_and_the_next_try_is_whole(store: Store) -> None:
    uploads = Uploads(store, SqliteRowStore(store.transaction))
    with store.alone() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 20}")
    many = [row(str(number) + "x" * 200) for number in range(2000)]
    with pytest.raises(sqlite3.OperationalError, match="full"):
        uploads.take(incoming(), many, at=1)
    with store.alone() as connection:
        connection.execute("PRAGMA max_page_count = 1000000")
    assert uploads.take(incoming(), many, at=2).stored == 2000
    assert counts(store) == [2000, 2000]


def test_a_file_without_a_test_says_nothing_of_the_layout(uploads: Uploads) -> None:
    uploads.take(incoming("test_run", name="empty"), [], at=0)
    assert uploads.take(incoming("junit"), [row("a")], at=0) == Receipt(sent=1, stored=1)


def test_rows_of_a_file_on_its_way_are_not_seen(store: Store, uploads: Uploads) -> None:
    uploads.take(incoming(), [row("old")], at=0)
    seen: list[list[str]] = []

    def look() -> None:
        settled = store.database.rows("SELECT name FROM settled_test_run")
        seen.append([one["name"] for one in settled])
        assert len(stored(store)) > len(settled)

    rows = [row("new")] * (2 * SqliteRowStore.chunk_rows)
    uploads.take(incoming(sha="1"), then(rows, look), at=0)
    assert seen == [["old"]]
    assert len(store.database.rows("SELECT 1 FROM settled_test_run")) == len(rows)
