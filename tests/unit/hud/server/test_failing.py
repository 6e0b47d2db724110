"""What fails now and in a pull request, over a store that is made by hand."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.hud.server.queries.failing import Failure, failing_now, newest_of_lanes, pull_request, summarize
from ci.hud.server.queries.jobs import chosen_jobs
from ci.hud.server.queries.timing import slower_files, slower_tests
from ci.hud.server.queries.window import Window
from ci.report.compare.times import usual_s
from ci.store.identity import key_of_test
from ci.store.store import Store

from .made_jobs import NOW, at, made

WINDOW = Window(now=NOW.timestamp())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "hud.sqlite")
    yield store
    store.close()


Tests = dict[str, tuple[str, str]]


def add(store: Store, number: int, tests: Tests, *, days: float, took: float = 1.0, **job: Any) -> None:
    """A job with its tests: by name the verdict and the message."""
    rows = {"workflow_id": number, "workflow_run_attempt": 1, "job_id": number}
    summed = {"tests": 1, "errors": 0, "failures": 0, "skipped": 0, "successes": 1, "time": took * len(tests)}
    said = {
        "dynamoKey": f"k{number}", "status": "completed", "conclusion": "failure", "downstream_repo": "o/r",
        "upstream_repo": "p/p", "workflow_name": "W", "job_name": "nightly", "run_id": str(number),
        "job_id": number, "event_type": "nightly", "pytorch_head_sha": f"{number:040x}", "delivery_id": "d",
        "started_at": at(days), "completed_at": at(days - 0.01), **job,
    }  # fmt: skip
    with store.transaction() as connection:
        insert(connection, "crcr_workflow_job", said)
        insert(connection, "job_card", {**rows, "card": "", "verdict": "passed", "tests": 1, "seconds": 1.0})
        named = {**rows, "invoking_file": "f", "file": "f", "classname": "C"}
        insert(connection, "test_run_summary", {**named, **summed})
        for name, (verdict, message) in tests.items():
            test = {"name": name, "time": took, "test_id": name, "test_key": key_of_test(name), "place": 0}
            outcome = {"verdict": verdict, "message": message, "upload_id": 0}
            insert(connection, "test_run", {**named, **test, **outcome})


def insert(connection: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    marks = ", ".join(f":{name}" for name in row)
    connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", row)  # noqa: S608


GOOD = ("passed", "")


def bad(message: str) -> tuple[str, str]:
    return ("failed", message)


def failures(store: Store) -> list[Failure]:
    return failing_now(store.database, newest_of_lanes(store.database, chosen_jobs(store.database, WINDOW)))


def test_the_same_failure_of_many_tests_runs_and_lanes_is_one_row(store: Store) -> None:
    add(store, 1, {"a": GOOD, "b": GOOD, "c": bad("old")}, days=5)
    add(store, 2, {"a": bad("off by 3 at 0x7f01"), "b": GOOD, "c": GOOD}, days=4)
    add(store, 3, {"a": bad("off by 7 at 0x7f99"), "b": bad("off by 1 at 0x1234"), "c": bad("else")}, days=3)
    add(store, 4, {"a": bad("off by 2 at 0xabcd")}, days=2, job_name="release")
    add(store, 5, {"b": bad("off by 9 at 0xdddd")}, days=1, pr_number=7, job_name="pr")
    found = failures(store)
    assert [(one.message, one.number, one.runs, one.since) for one in found] == [
        ("off by 2 at 0xabcd", 2, 3, at(4)),
        ("else", 1, 1, at(3)),
    ]
    assert [(one.test_id, one.run, one.reliability.since) for one in found[0].tests] == [
        ("a", 4, at(2)),
        ("a", 3, at(4)),
        ("b", 3, at(3)),
    ]
    assert [(one.verdict, one.run) for one in found[1].tests[0].reliability.outcomes] == [
        ("failed", 1),
        ("passed", 2),
        ("failed", 3),
    ]


def test_a_run_without_rows_of_tests_hides_no_failure(store: Store) -> None:
    add(store, 1, {"a": bad("x")}, days=2)
    add(store, 2, {}, days=1)
    with store.transaction() as connection:
        connection.execute("DELETE FROM job_card WHERE workflow_id = 2")
    assert [one.number for one in failures(store)] == [1]


def test_a_pull_request_says_which_failures_trunk_has_too(store: Store) -> None:
    add(store, 1, {"a": bad("x"), "b": GOOD, "c": bad("y")}, days=3)
    add(
        store,
        2,
        {"a": bad("x"), "b": bad("z"), "c": GOOD},
        days=1,
        pr_number=7,
        pytorch_head_sha="new",
        job_name="pr",
    )
    add(store, 3, {"c": bad("y")}, days=2, pr_number=7, pytorch_head_sha="old", job_name="pr")
    add(store, 4, {"b": bad("z")}, days=1, pr_number=8, job_name="pr")
    found = pull_request(store.database, 7, NOW.timestamp())
    assert [(one.test_id, one.trunk) for one in found.tests] == [("b", None), ("a", 1)]
    assert ([one.id for one in found.jobs], [one.id for one in found.earlier]) == ([2], [3])
    assert [one.id for one in found.trunk] == [1]


@given(st.lists(st.sampled_from([None, "passed", "failed", "flaky", "skipped", "not_run"]), max_size=12))
def test_a_test_fails_since_the_first_of_its_newest_failures_in_a_row(verdicts: Sequence[str | None]) -> None:
    jobs = [made(number, days=number) for number in range(len(verdicts))]
    found = summarize(jobs, {number: one for number, one in enumerate(verdicts) if one})
    told = [one for one in verdicts if one]
    streak = next((place for place, one in enumerate(told) if one not in {"failed", "not_run"}), len(told))
    assert len(found.failing) == streak
    assert bool(found.since) == bool(streak)
    assert [one.verdict for one in found.outcomes] == told[::-1]
    assert found.passed <= found.ran <= len(told)


def test_what_takes_longer_than_noise_explains_is_marked(store: Store) -> None:
    for number in range(1, 7):
        add(store, number, {"a": GOOD, "b": GOOD}, days=10 - number, took=1.0 + number / 100)
    before = chosen_jobs(store.database, WINDOW)
    now = {str(key_of_test("a")): 4.0, str(key_of_test("b")): 1.1, "7": 9.0}
    assert slower_tests(store.database, now, before) == {str(key_of_test("a")): pytest.approx(1.035)}
    assert slower_files(store.database, {"f": 9.0}, before) == {"f": pytest.approx(2.07)}
    assert slower_files(store.database, {"f": 2.2}, before) == {}
    assert slower_tests(store.database, now, []) == {}


@pytest.mark.parametrize(
    ("now", "past", "usual"),
    [
        (4.0, [1.0] * 5, 1.0),
        (4.0, [1.0] * 4, None),  # too few to know
        (1.4, [1.0] * 5, None),  # less than half a second
        (110.0, [100.0] * 5, None),  # less than a fifth
        (4.0, [1.0, 3.5, 1.2, 4.4, 0.9], None),  # it varies as much
        (0.9, [1.0] * 5, None),
    ],
)
def test_longer_than_usual(now: float, past: list[float], usual: float | None) -> None:
    assert usual_s(now, past) == usual
