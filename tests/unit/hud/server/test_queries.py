"""What pages ask of the store: the same as counted row by row, and never by reading every test."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ci.hud.server.parameters import found_job
from ci.hud.server.queries import card_health, compare, failing, history, one_run, tests_of_run
from ci.hud.server.queries.jobs import (
    attempts,
    chosen_jobs,
    count_jobs,
    details,
    job_before,
    list_jobs,
)
from ci.hud.server.queries.tests_of_run import files_of_run, run_tests
from ci.hud.server.queries.window import Window, form
from ci.store.database import Row, SqliteDatabase, Value
from ci.store.identity import key_of_test as key_of
from tests.hud_seed import Seeded, every_row, seed
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
def rows(seeded: Seeded) -> list[Row]:
    return every_row(seeded.path)


@pytest.fixture(scope="module")
def job(database: SqliteDatabase, seeded: Seeded) -> Mapping[str, Any]:
    """The row of a nightly."""
    return found_job(database, seeded.jobs - 5)


def within(rows: list[Row], window: Window) -> list[Row]:
    return [
        row
        for row in rows
        if row["started_at"] > window.since
        and not row["replaced"]
        and window.repo in {"", row["downstream_repo"]}
        and window.lane in {"", row["lane"]}
        and window.event in {"", row["event_type"]}
    ]


def told_twice(path: Path, which: str) -> None:
    """Have another file tell of some tests as well."""
    with closing(sqlite3.connect(path)) as connection, connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(test_run)")][1:]
        others = ", ".join("'another'" if one == "invoking_file" else one for one in columns)
        connection.execute(
            f"INSERT INTO test_run ({', '.join(columns)}) SELECT {others} FROM test_run WHERE {which}"  # noqa: S608
        )


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
    bad = [row for row in within(rows, window) if row["verdict"] == verdict]
    wanted = Counter(row["test_id"] for row in bad)
    cards = Counter(name for name, _ in {(row["test_id"], row["card"]) for row in bad})
    total, found = history.worst_tests(database, window, verdict)
    assert total == len(wanted)
    assert len(found) == min(total, 50)
    assert [one.runs for one in found] == sorted(wanted.values(), reverse=True)[:50]
    for one in found:
        assert (one.runs, one.cards) == (wanted[one.test_id], cards[one.test_id])


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_tests_history(
    database: SqliteDatabase,
    seeded: Seeded,
    rows: list[Row],
    window: Window,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = seeded.flaky[0]
    own = Counter(row["verdict"] for row in within(rows, window) if row["test_id"] == name)
    whole = history.history_of_test(database, key_of(name, 0), window)
    assert Counter(one.verdict for one in whole.runs if not one.superseded) == own
    assert (whole.counted, whole.failed) == (own.total(), own["failed"])
    assert whole.flaky >= own["flaky"]
    monkeypatch.setattr(history, "RUNS", 5)
    found = history.history_of_test(database, key_of(name, 0), window)
    assert found.runs == whole.runs[:5]
    assert found.counted == sum(not one.superseded for one in found.runs)


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
    seen: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if not row["replaced"]:
            seen.setdefault((row["test_id"], row["verdict"]), []).append(row["started_at"])
    for number in sorted({row["job"] for row in rows})[::9]:
        job = found_job(database, number)
        own = [row for row in rows if row["job"] == number]
        cards = one_run.cards_of_run(database, job)
        wanted = Counter((row["card"], row["verdict"]) for row in own)
        assert {(one.card, name): tests for one in cards for name, tests in one.verdicts.items()} == wanted
        problems = one_run.problems_of_run(database, job)
        told = Counter[tuple[str, str]]()
        for problem in problems:
            told[problem.verdict, problem.cause] += problem.tests
            assert sum(problem.cards.values()) == problem.tests
            assert 1 <= len(problem.examples) <= 5
            for one in (one for one in problem.examples if one.times):
                times = seen[one.test_id, problem.verdict]
                assert (one.times, one.first_seen, one.last_seen) == (len(times), min(times), max(times))
        bad = [row for row in own if row["verdict"] in one_run.PROBLEMS]
        assert told == Counter((row["verdict"], row["cause"]) for row in bad)


def test_the_pages_of_a_runs_tests_join_to_the_whole(database: SqliteDatabase, rows: list[Row]) -> None:
    number = max(Counter(row["job"] for row in rows).items(), key=lambda item: item[1])[0]
    job = found_job(database, number)
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
    assert getattr(details(database, number), "id", None) == number
    tries = attempts(database, found_job(database, number))
    assert [row["run_attempt"] for row in tries] == [1, 2]


def test_the_run_before_has_the_same_name_and_is_older(database: SqliteDatabase) -> None:
    newest = next(job for job in chosen_jobs(database, Window(now=NOW)) if job.lane == "nightly-main")
    before = job_before(database, found_job(database, newest.id))
    assert before is not None
    other = found_job(database, before)
    assert (other["job_name"], other["started_at"] < newest.started_at) == (newest.job_name, True)


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


@pytest.fixture
def explained(seeded: Seeded) -> Explained:
    return Explained(seeded.path)


@pytest.mark.parametrize("name", ASKED)
def test_no_query_reads_every_test(explained: Explained, job: Mapping[str, Any], name: str) -> None:
    ASKED[name](explained, job)
    assert explained.steps
    # `t` is what queries call the table of tests; `c` that of a job's cards.
    assert not [
        step for step in explained.steps if step.startswith("SCAN ") and step.split()[1] in {"test_run", "t"}
    ]


def test_a_query_that_reads_every_test_would_be_found(explained: Explained) -> None:
    explained.rows("SELECT count(*) FROM test_run AS t WHERE t.verdict = 'failed'")
    assert [step.split()[1] for step in explained.steps] == ["t"]


def test_the_first_and_last_time_of_problems_is_asked_of_their_own_index(explained: Explained) -> None:
    one_run.seen(explained, {7})
    assert any("test_problem" in step for step in explained.steps)


def test_the_reliability_of_a_test_is_read_by_its_history_and_not_by_whole_runs(
    explained: Explained, job: Mapping[str, Any]
) -> None:
    one = details(explained, job["id"])
    assert one is not None
    explained.steps.clear()
    failing.reliability(explained, [one], [7])
    assert explained.steps[0].startswith("SEARCH test_run USING INDEX test_history")


def test_a_comparison_reads_narrow_indexes_and_the_rows_of_its_page(
    explained: Explained, job: Mapping[str, Any]
) -> None:
    assert compare.compare_runs(explained, job, job, kind="still failing", limit=9, offset=0).changes
    assert {step.split(" (")[0] for step in explained.steps} == {
        "SEARCH test_run USING COVERING INDEX test_of_job",
        "SEARCH test_run USING INDEX test_history",
        "LIST SUBQUERY 3",
        "SCAN upload USING INDEX upload_under_way",
    }


@pytest.fixture(scope="module")
def crowded(seeded: Seeded, tmp_path_factory: pytest.TempPathFactory) -> SqliteDatabase:
    """Many tests take as long as each other, and some are told of by another file too."""
    path = tmp_path_factory.mktemp("crowded") / "hud.sqlite"
    path.write_bytes(seeded.path.read_bytes())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE test_run SET time = round(time, 1)")
    told_twice(path, "id % 5 = 0")
    return SqliteDatabase(path)


@pytest.mark.parametrize("order", ["verdict", "time"])
@pytest.mark.parametrize("chosen", [{}, {"verdict": "passed"}, {"card": CARDS[1]}], ids=str)
@pytest.mark.parametrize("every", [1, 7, 10**6])
def test_pages_far_down_are_those_of_the_plain_way(
    monkeypatch: pytest.MonkeyPatch,
    crowded: SqliteDatabase,
    job: Mapping[str, Any],
    *,
    order: str,
    chosen: dict[str, Any],
    every: int,
) -> None:
    total, whole = run_tests(crowded, job, limit=10**6, order=order, **chosen)
    assert total == len(whole) > 9
    monkeypatch.setattr(tests_of_run, "FAR", 0)
    monkeypatch.setattr(tests_of_run, "_EVERY", every)
    monkeypatch.setattr(tests_of_run, "_LEAST_SAMPLE", 5)
    for step in (1, 7, 1000):
        found = [
            one
            for offset in range(0, total + step, step)
            for one in run_tests(crowded, job, limit=step, offset=offset, order=order, **chosen)[1]
        ]
        assert found == whole


def test_a_test_that_two_files_of_a_job_tell_of_is_compared_twice_and_is_one_run(tmp_path: Path) -> None:
    made = seed(tmp_path / "hud.sqlite", end=END, tests=600, days=3)
    name = made.flaky[0]
    told_twice(made.path, f"test_id = '{name}'")
    database = SqliteDatabase(made.path)
    job = found_job(database, made.jobs)
    found = compare.compare_runs(database, job, job, kind="fixed", limit=9, offset=0)
    ((total,),) = database.tuples("SELECT count(*) FROM test_run WHERE job_id = :job", {"job": job["job_id"]})
    assert found.before == found.both == total > 0
    key = key_of(name, 0)
    runs = history.history_of_test(database, key, EVERYTHING).runs
    for verdict in ("flaky", "failed"):
        for one in history.worst_tests(database, EVERYTHING, verdict)[1]:
            if one.test_id == name:
                assert one.runs == one_run.seen(database, {key})[key, verdict]["times"] <= made.jobs
                own = {run.run for run in runs if run.verdict == verdict and not run.superseded}
                assert one.runs == len(own)
