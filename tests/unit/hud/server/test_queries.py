"""What pages ask of the store: the same as counted row by row, and never by reading every test."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ci.hud.server.queries import card_health, compare, failures, history, tests_of_run
from ci.hud.server.queries.jobs import (
    attempts,
    chosen_jobs,
    count_jobs,
    details,
    job_before,
    list_jobs,
    one_job,
)
from ci.hud.server.queries.tests_of_run import files_of_run, run_tests
from ci.hud.server.queries.window import Window, form
from ci.store.database import Row, SqliteDatabase, Value
from ci.store.identity import key_of_test as key_of
from tests.hud_seed import Seeded, seed
from tests.hud_seed_plan import CARDS, OTHER, SPYRE
from tests.unit.hud.server.asked import ASKED, END, EVERYTHING, NOW

WINDOWS = (
    Window(now=NOW, days=90), Window(now=NOW, days=7), Window(now=NOW, days=90, repo=OTHER),
    Window(now=NOW, days=90, repo=SPYRE, lane="pr"), Window(now=NOW, days=90, event="nightly"),
    Window(now=NOW, lane="no such lane"),
)  # fmt: skip


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Seeded:
    return seed(tmp_path_factory.mktemp("hud") / "hud.sqlite", end=END, tests=4000, days=20)


@pytest.fixture(scope="module")
def database(seeded: Seeded) -> SqliteDatabase:
    return SqliteDatabase(seeded.path)


@pytest.fixture(scope="module")
def rows(database: SqliteDatabase) -> list[Row]:
    """Every row of a test with its job, superseded or not."""
    return database.rows(
        "SELECT t.*, j.id AS job, j.started_at, j.downstream_repo, j.event_type, d.lane, j.run_attempt, "
        "j.run_attempt < max(j.run_attempt) OVER (PARTITION BY j.downstream_repo, j.delivery_id, "
        "j.workflow_name, j.job_name, j.run_id, t.test_key) AS replaced "
        "FROM test_run AS t JOIN crcr_workflow_job AS j ON t.job_id = j.job_id "
        "JOIN job_detail AS d USING (dynamoKey)"
    )


def within(rows: list[Row], window: Window) -> Iterator[Row]:
    for row in rows:
        if row["started_at"] > window.since and not row["replaced"]:
            told = (row["downstream_repo"], row["lane"], row["event_type"])
            if all(
                wanted in {"", said}
                for wanted, said in zip((window.repo, window.lane, window.event), told, strict=True)
            ):
                yield row


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("cards", [False, True])
def test_verdicts_by_day(database: SqliteDatabase, rows: list[Row], window: Window, *, cards: bool) -> None:
    wanted = Counter(
        (row["started_at"][:10], row["card"] if cards else "", row["verdict"])
        for row in within(rows, window)
        if row["card"] or not cards
    )
    found = card_health.verdicts_by_day(database, window, cards=cards)
    assert {(one.day, one.card, one.verdict): one.tests for one in found} == wanted


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("verdict", ["flaky", "failed"])
def test_the_worst_tests(database: SqliteDatabase, rows: list[Row], window: Window, verdict: str) -> None:
    wanted = Counter(row["test_id"] for row in within(rows, window) if row["verdict"] == verdict)
    total, found = history.worst_tests(database, window, verdict)
    assert total == len(wanted)
    assert len(found) == min(total, 50)
    assert {one.test_id: one.runs for one in found}.items() <= wanted.items()
    cards = {one.test_id: one.cards for one in found}
    assert cards == {
        name: len(
            {
                row["card"]
                for row in within(rows, window)
                if (row["test_id"], row["verdict"]) == (name, verdict)
            }
        )
        for name in cards
    }
    assert [one.runs for one in found] == sorted(wanted.values(), reverse=True)[:50]


def test_a_history_ends_at_five_hundred_attempts(monkeypatch: pytest.MonkeyPatch, seeded: Seeded) -> None:
    database, key = SqliteDatabase(seeded.path), key_of(seeded.flaky[0], 0)
    whole = history.history_of_test(database, key, EVERYTHING)
    monkeypatch.setattr(history, "RUNS", 5)
    found = history.history_of_test(database, key, EVERYTHING)
    assert found.runs == whole.runs[:5]
    assert found.counted == sum(not one.superseded for one in found.runs)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_tests_history(database: SqliteDatabase, seeded: Seeded, rows: list[Row], window: Window) -> None:
    name = seeded.flaky[0]
    own = [row for row in within(rows, window) if row["test_id"] == name]
    found = history.history_of_test(database, key_of(name, 0), window)
    assert Counter(one.verdict for one in found.runs if not one.superseded) == Counter(
        row["verdict"] for row in own
    )
    assert found.counted == len(own)
    assert found.failed == sum(row["verdict"] == "failed" for row in own)
    assert found.flaky >= sum(row["verdict"] == "flaky" for row in own)


def test_a_test_that_failed_and_then_passed_in_the_next_attempt_is_flaky() -> None:
    def run(number: int, verdict: str, **more: Any) -> history.TestRun:
        values: dict[str, Any] = {
            "run_name": "", "repo": "o/r", "lane": "pr", "sha": "s", "attempt": 1, "superseded": False,
            "started_at": "2026-08-01T00:00:00Z", "cause": "", "card": "c", "seconds": 1.0, "tries": 1,
            "message": "", "same_job": str(number),
        }  # fmt: skip
        return history.TestRun(run=number, verdict=verdict, **(values | more))

    again = {"same_job": "x"}
    runs = [
        run(3, "passed", attempt=2, **again),
        run(2, "failed", superseded=True, **again),
        run(1, "passed"),
    ]
    found = history.summarize("t", 0, "f", runs)
    assert (found.counted, found.outcomes, found.flaky, found.failed, found.flake_rate) == (2, 2, 1, 0, 0.5)
    assert history.summarize("t", 0, "f", [run(3, "failed"), run(1, "passed")]).flaky == 0
    assert history.summarize("t", 0, "f", [run(3, "skipped")]).flake_rate is None


def test_a_runs_problems_and_cards(database: SqliteDatabase, rows: list[Row]) -> None:
    for number in sorted({row["job"] for row in rows})[::9]:
        job = one_job(database, number)
        assert job is not None
        own = [row for row in rows if row["job"] == number]
        cards = failures.cards_of_run(database, job)
        wanted = Counter((row["card"], row["verdict"]) for row in own)
        assert {(one.card, name): tests for one in cards for name, tests in one.verdicts.items()} == wanted
        bad = [row for row in own if row["verdict"] in failures.PROBLEMS]
        problems = failures.problems_of_run(database, job)
        told = Counter[tuple[str, str]]()
        for problem in problems:
            told[problem.verdict, problem.cause] += problem.tests
        assert told == Counter((row["verdict"], row["cause"]) for row in bad)
        assert all(sum(one.cards.values()) == one.tests for one in problems)
        assert all(1 <= len(one.examples) <= 5 for one in problems)
        for problem in problems:
            for example in problem.examples:
                same = (example.test_id, problem.verdict, 0)
                seen = [
                    row["started_at"]
                    for row in rows
                    if (row["test_id"], row["verdict"], row["replaced"]) == same
                ]
                times = (example.times, example.first_seen, example.last_seen)
                assert times == (len(seen), min(seen, default=""), max(seen, default="")) or not example.times


def test_the_pages_of_a_runs_tests_join_to_the_whole(database: SqliteDatabase, rows: list[Row]) -> None:
    number = max(Counter(row["job"] for row in rows).items(), key=lambda item: item[1])[0]
    job = one_job(database, number)
    assert job is not None
    own = [row for row in rows if row["job"] == number]
    pages = [run_tests(database, job, limit=7, offset=offset) for offset in range(0, len(own) + 7, 7)]
    assert {total for total, _ in pages} == {len(own)}
    assert [one.test_id for _, page in pages for one in page] == [
        row["test_id"] for row in sorted(own, key=lambda row: (row["verdict"], row["test_id"]))
    ]
    chosen: dict[str, Any] = {name: own[0][name] for name in ("verdict", "file", "card")}
    total, found = run_tests(database, job, limit=1000, order="time", **chosen)
    same = [row for row in own if all(row[name] == value for name, value in chosen.items())]
    assert total == len(found) == len(same)
    assert [one.seconds for one in found] == sorted((row["time"] for row in same), reverse=True)
    files = files_of_run(database, job, limit=1000)
    assert {one.file: one.tests for one in files} == Counter(row["file"] for row in own)
    assert all(one.tests == one.passed + one.failed + one.skipped for one in files)


def test_superseded_attempts_are_left_out_of_every_list(database: SqliteDatabase) -> None:
    everything = database.rows("SELECT id, superseded FROM crcr_workflow_job_ranked")
    replaced = {row["id"] for row in everything if row["superseded"]}
    assert replaced
    kept = {row["id"] for row in everything} - replaced
    assert {job.id for job in chosen_jobs(database, Window(now=NOW, days=3650))} == kept
    assert {row["id"] for row in list_jobs(database, limit=10**6)} == kept
    assert count_jobs(database) == len(kept)
    (number, *_) = sorted(replaced)
    job, said = one_job(database, number), details(database, number)
    assert job is not None
    assert said is not None
    assert said.id == number
    assert [row["run_attempt"] for row in attempts(database, job)] == [1, 2]


def test_the_run_before_has_the_same_name_and_is_older(database: SqliteDatabase) -> None:
    newest = next(job for job in chosen_jobs(database, Window(now=NOW)) if job.lane == "nightly-main")
    row = one_job(database, newest.id)
    assert row is not None
    before = job_before(database, row)
    assert before is not None
    other = details(database, before)
    assert other is not None
    assert (other.job_name, other.started_at < newest.started_at) == (newest.job_name, True)


def test_filters_offer_what_is_there_and_what_is_chosen(database: SqliteDatabase) -> None:
    found = form(database, Window(now=NOW, days=33, repo=SPYRE, lane="gone"))
    assert {SPYRE, OTHER} <= set(found.repos)
    assert {"pr", "nightly-main", "gone"} <= set(found.lanes)
    assert "smoke" not in found.lanes
    assert found.days == (7, 14, 30, 33, 90, 180, 365)


class Explained(SqliteDatabase):
    """Notes how SQLite goes about each query."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.steps: list[str] = []
        self.path = path

    def rows(self, query: str, values: Mapping[str, Value] | None = None) -> list[Row]:
        self.explain(query, values)
        return super().rows(query, values)

    def tuples(self, query: str, values: Mapping[str, Value] | None = None) -> Sequence[tuple[Any, ...]]:
        self.explain(query, values)
        return super().tuples(query, values)

    def explain(self, query: str, values: Mapping[str, Value] | None) -> None:
        with closing(sqlite3.connect(self.path)) as connection:
            self.steps += [
                step[3] for step in connection.execute(f"EXPLAIN QUERY PLAN {query}", dict(values or {}))
            ]


@pytest.mark.parametrize("name", ASKED)
def test_no_query_reads_every_test(seeded: Seeded, name: str) -> None:
    database = Explained(seeded.path)
    job = one_job(database, seeded.jobs - 5)
    assert job is not None
    ASKED[name](database, job)
    assert database.steps
    # `t` is what queries call the table of tests; `c` that of a job's cards.
    assert not [
        step for step in database.steps if step.startswith("SCAN ") and step.split()[1] in {"test_run", "t"}
    ]


def test_a_query_that_reads_every_test_would_be_found(seeded: Seeded) -> None:
    database = Explained(seeded.path)
    database.rows("SELECT count(*) FROM test_run AS t WHERE t.verdict = 'failed'")
    assert [step.split()[1] for step in database.steps] == ["t"]


def test_the_first_and_last_time_of_problems_is_asked_of_their_own_index(seeded: Seeded) -> None:
    database = Explained(seeded.path)
    failures.seen(database, {7})
    assert any("test_problem" in step for step in database.steps)


def test_a_comparison_reads_narrow_indexes_and_the_rows_of_its_page(seeded: Seeded) -> None:
    database = Explained(seeded.path)
    job = one_job(database, seeded.jobs - 5)
    assert job is not None
    database.steps.clear()
    assert compare.compare_runs(database, job, job, kind="still failing", limit=9, offset=0).changes
    assert {step.split(" (")[0] for step in database.steps} == {
        "SEARCH test_run USING COVERING INDEX test_of_job",
        "SEARCH test_run USING INDEX test_history",
        "LIST SUBQUERY 3",
        "SCAN upload USING INDEX upload_under_way",
    }


@pytest.mark.parametrize("order", ["verdict", "time"])
@pytest.mark.parametrize("chosen", [{}, {"verdict": "passed"}, {"card": CARDS[1]}], ids=str)
@pytest.mark.parametrize("every", [1, 7, 10**6])
def test_pages_far_down_are_those_of_the_plain_way(
    monkeypatch: pytest.MonkeyPatch,
    seeded: Seeded,
    tmp_path: Path,
    *,
    order: str,
    chosen: dict[str, Any],
    every: int,
) -> None:
    made = tmp_path / "hud.sqlite"
    made.write_bytes(seeded.path.read_bytes())
    with closing(sqlite3.connect(made)) as connection, connection:
        # Many take as long as each other, and some are told of by another file too.
        connection.execute("UPDATE test_run SET time = round(time, 1)")
        columns = [row[1] for row in connection.execute("PRAGMA table_info(test_run)")][1:]
        others = ", ".join("'another'" if one == "invoking_file" else one for one in columns)
        connection.execute(
            f"INSERT INTO test_run ({', '.join(columns)}) SELECT {others} FROM test_run WHERE id % 5 = 0"  # noqa: S608
        )
    database = SqliteDatabase(made)
    job = one_job(database, seeded.jobs - 5)
    assert job is not None
    total, whole = run_tests(database, job, limit=10**6, order=order, **chosen)
    assert total == len(whole) > 9
    monkeypatch.setattr(tests_of_run, "FAR", 0)
    monkeypatch.setattr(tests_of_run, "_EVERY", every)
    monkeypatch.setattr(tests_of_run, "_LEAST_SAMPLE", 5)
    for step in (1, 7, 1000):
        found = [
            one
            for offset in range(0, total + step, step)
            for one in run_tests(database, job, limit=step, offset=offset, order=order, **chosen)[1]
        ]
        assert found == whole


def test_a_test_that_two_files_of_a_job_tell_of_is_compared_twice_and_is_one_run(tmp_path: Path) -> None:
    made = seed(tmp_path / "hud.sqlite", end=END, tests=600, days=3)
    name = made.flaky[0]
    with closing(sqlite3.connect(made.path)) as connection, connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(test_run)")][1:]
        others = ", ".join("'another'" if one == "invoking_file" else one for one in columns)
        connection.execute(
            f"INSERT INTO test_run ({', '.join(columns)}) SELECT {others} FROM test_run "  # noqa: S608
            "WHERE test_id = ?",
            (name,),
        )
    database = SqliteDatabase(made.path)
    job = one_job(database, made.jobs)
    assert job is not None
    found = compare.compare_runs(database, job, job, kind="fixed", limit=9, offset=0)
    (total,) = database.rows(
        "SELECT count(*) AS number FROM test_run WHERE job_id = :job", {"job": job["job_id"]}
    )
    assert found.before == found.both == total["number"] > 0
    for verdict in ("flaky", "failed"):
        before = history.worst_tests(database, EVERYTHING, verdict)[1]
        for one in [one for one in before if one.test_id == name]:
            key = int(one.test_key)
            seen = failures.seen(database, {key})[key, verdict]
            assert one.runs == seen["times"] <= made.jobs
            assert one.runs == len(
                {
                    run.run
                    for run in history.history_of_test(database, int(one.test_key), EVERYTHING).runs
                    if run.verdict == verdict and not run.superseded
                }
            )
