"""Many at the same moment, over HTTP: files of rows of one job, and reports while old ones are pruned."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import requests

from ci.store.identity import job_number
from ci.store.prune import DAY_S
from ci.store.store import Store
from ci.store.uploads import SENT_AGAIN
from tests.hud_server import create_app, embedded

from .conftest import REPOSITORY, post_report, upload

TOKEN = "s3cret-token"
TIMEOUT = 60
RUN_ID = 4242
TESTS = 6000
NOW = 1_785_000_000.0


@pytest.fixture
def url(store: Store) -> Iterator[str]:
    app = create_app(store, token=TOKEN, repository=REPOSITORY, clock=lambda: NOW, limit=10**9)
    with embedded(app) as base:
        yield base


def report(payload: dict[str, Any], run_id: int) -> dict[str, Any]:
    workflow = {**payload["workflow"], "run_id": run_id, "check_run_id": f"{run_id}-1"}
    return {**payload, "workflow": workflow}


def keys(run_id: int) -> dict[str, int]:
    job_id = job_number(f"{run_id}-1", repository=REPOSITORY)
    return {"workflow_id": run_id, "workflow_run_attempt": 1, "job_id": job_id}


def content(kind: str, run_id: int, marked: str, tests: int) -> bytes:
    if kind == "junit":
        cases = (f'<testcase classname="{marked}" name="t{n}" time="1"/>' for n in range(tests))
        return f"<testsuite>{''.join(cases)}</testsuite>".encode()
    same = {**keys(run_id), "classname": marked, "invoking_file": "a", "file": "a.py", "time": 1.0}
    return "\n".join(json.dumps({**same, "name": f"t{n}"}) for n in range(tests)).encode()


def send(url: str, kind: str, name: str, body: bytes, run_id: int = RUN_ID) -> requests.Response:
    return upload(url, TOKEN, kind, body, name=name, **keys(run_id))


def at_once(calls: Sequence[Callable[[], requests.Response]]) -> list[requests.Response]:
    """The answers to calls that are made at the same moment, in the order of the calls."""
    start = threading.Barrier(len(calls))

    def make(call: Callable[[], requests.Response]) -> requests.Response:
        start.wait(TIMEOUT)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(make, calls))


def one(store: Store, query: str) -> Any:
    ((value,),) = (row.values() for row in store.database.rows(query))
    return value


def adds_up(store: Store) -> int:
    """The rows of a store, which are those of its list of files, and all that its counts say."""
    rows = int(one(store, "SELECT count(*) FROM test_run"))
    assert one(store, "SELECT coalesce(sum(stored), 0) FROM upload") == rows
    assert one(store, "SELECT coalesce(sum(tests), 0) FROM job_card") == rows
    assert one(store, "SELECT coalesce(sum(tests), 0) FROM test_run_summary") == rows
    assert one(store, "SELECT count(*) FROM upload WHERE state != 'DONE'") == 0
    return rows


@pytest.mark.parametrize("kind", ["junit", "test_run"])
@pytest.mark.parametrize("names", [1, 3])
def test_of_files_of_a_name_sent_at_once_one_stays(
    url: str, store: Store, payload: dict[str, Any], kind: str, names: int
) -> None:
    posted = post_report(url, report(payload, RUN_ID), TOKEN)
    assert posted.status_code == 200
    wanted = [(f"{number % names}.xml", f"C{number}") for number in range(9)]
    bodies = [content(kind, RUN_ID, marked, TESTS) for _, marked in wanted]
    answers = at_once(
        [partial(send, url, kind, name, body) for (name, _), body in zip(wanted, bodies, strict=True)]
    )
    # Where one ended before the next began, that one took its place: both were told of their own.
    statuses = Counter(answer.status_code for answer in answers)
    assert statuses.keys() <= {200, 409}
    assert statuses[200] >= names
    for answer in answers:
        if answer.status_code == 409:
            assert answer.json()["error"] == SENT_AGAIN
        else:
            assert answer.json() == {"ok": True, "sent": TESTS, "stored": TESTS, "unchanged": ""}
    assert adds_up(store) == names * TESTS
    stay = store.database.rows(
        "SELECT DISTINCT u.name, t.classname FROM test_run AS t JOIN upload AS u ON u.id = t.upload_id"
    )
    taken = {pair for pair, answer in zip(wanted, answers, strict=True) if answer.status_code == 200}
    assert {tuple(row.values()) for row in stay} <= taken
    assert sorted(row["name"] for row in stay) == sorted({name for name, _ in wanted})
    # Whoever was told to come again is taken then.
    late = next((n for n, answer in enumerate(answers) if answer.status_code == 409), 0)
    assert send(url, kind, wanted[late][0], bodies[late]).status_code == 200
    assert adds_up(store) == names * TESTS


def test_the_same_file_sent_by_many_at_once_is_there_once(
    url: str, store: Store, payload: dict[str, Any]
) -> None:
    post_report(url, report(payload, RUN_ID), TOKEN)
    body = content("junit", RUN_ID, "C", TESTS)
    answers = at_once([partial(send, url, "junit", "a.xml", body)] * 8)
    assert {answer.status_code for answer in answers} <= {200, 409}
    assert {answer.json()["stored"] for answer in answers if answer.status_code == 200} == {TESTS}
    assert adds_up(store) == TESTS
    assert send(url, "junit", "a.xml", body).json()["unchanged"] == "the same file is here"


def test_a_broken_file_among_good_ones_of_its_name_leaves_nothing(
    url: str, store: Store, payload: dict[str, Any]
) -> None:
    post_report(url, report(payload, RUN_ID), TOKEN)
    whole = content("junit", RUN_ID, "C", TESTS)
    bodies = (whole, whole[:-20], whole + b"<", whole[: len(whole) // 2])
    first, *broken = at_once([partial(send, url, "junit", "a.xml", body) for body in bodies])
    assert {answer.status_code for answer in broken} <= {400, 409}
    assert first.status_code in {200, 409}
    assert adds_up(store) == (TESTS if first.status_code == 200 else 0)
    assert send(url, "junit", "a.xml", whole).status_code == 200
    assert adds_up(store) == TESTS


PRUNING = """
import sys, time
from functools import partial
from pathlib import Path
from ci.store.prune import DAY_S, give_back, prune
from ci.store.row_store import SqliteRowStore
from ci.store.store import Store
store, at = Store(Path(sys.argv[1])), float(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
gone = prune(store, SqliteRowStore(store.transaction), before=at - 90 * DAY_S, at=at)
give_back(store)
store.close()
print(gone.jobs)
"""
OLD = range(1, 61)
NEW = range(1001, 1031)


def test_what_is_answered_200_while_a_prune_runs_is_there_and_counts_add_up(
    url: str, store: Store, payload: dict[str, Any]
) -> None:
    for run_id in OLD:
        answer = post_report(url, report(payload, run_id), TOKEN)
        assert answer.status_code == 200
        assert send(url, "junit", "a.xml", content("junit", run_id, "C", 300), run_id).status_code == 200
    with store.transaction() as connection:
        connection.execute("UPDATE crcr_workflow_job SET _inserted_at = '2020-01-01T00:00:00.000Z'")
        connection.execute("UPDATE upload SET at = ?", (NOW - 100 * DAY_S,))
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", PRUNING, str(store.path), str(NOW)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("go\n")
        process.stdin.flush()
        # Old jobs that are heard of again, the last ones first, which the prune has yet to come to; new ones.
        chosen = [*list(OLD)[::-3], *NEW]
        taken: list[tuple[int, int]] = []
        for run_id in chosen:
            posted = post_report(url, report(payload, run_id), TOKEN)
            assert posted.status_code == 200, posted.text
            # The very file that is there, or another of its name.
            body = content("junit", run_id, "C", 300 + run_id % 2)
            answer = send(url, "junit", "a.xml", body, run_id)
            assert answer.status_code == 200, answer.text
            taken.append((run_id, answer.json()["stored"]))
        told, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    adds_up(store)
    there = {int(row["run_id"]) for row in store.database.rows("SELECT run_id FROM crcr_workflow_job")}
    assert there == {run_id for run_id, _ in taken}
    assert int(told) <= len(OLD)
    for run_id, stored in taken:
        for table in ("test_run", "job_card"):
            number = "count(*)" if table == "test_run" else "sum(tests)"
            query = f"SELECT {number} FROM {table} WHERE workflow_id = {run_id}"  # noqa: S608  # ours
            assert one(store, query) == stored, (run_id, table)
