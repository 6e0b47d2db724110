"""HUD's nine queries against the same numbers counted row by row in plain Python, over random stores."""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from ci.hud.server.queries import hud
from ci.store.store import Store

NOW = datetime(2026, 8, 30, 12, tzinfo=UTC)
REPOS = ("o/a", "o/b", "pytorch/crcr-test")
NAMES = ("test", "xfail", "XFAIL", "xcancel-1", "my-xtimeout")
CONCLUSIONS = ("success", "failure", "timed_out", "cancelled", "")
SHAS = ("a" * 40, "B" * 40, "b" * 39, "")
Rows = list[dict[str, Any]]


def text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def random_rows(draw: random.Random, number: int) -> Rows:
    rows: Rows = []
    for place in range(number):
        start = NOW - timedelta(minutes=draw.randrange(14 * 24 * 60), microseconds=place)
        status = draw.choice(("completed", "completed", "completed", "in_progress"))
        rows.append({
            "dynamoKey": f"k{place}", "status": status, "downstream_repo": draw.choice(REPOS),
            "upstream_repo": "pytorch/pytorch", "pr_number": draw.choice((0, 1, 2, 3)),
            "pytorch_head_sha": draw.choice(SHAS), "delivery_id": "d", "workflow_name": draw.choice("wv"),
            "job_name": draw.choice(NAMES), "check_run_id": str(place),
            "run_id": draw.choice(("", "7", "8", "9")),
            "run_attempt": draw.randint(1, 3), "conclusion": draw.choice(CONCLUSIONS),
            "queue_time": draw.choice((None, 0.0, draw.uniform(0, 90))),
            "execution_time": draw.choice((None, 12.5)),
            "started_at": draw.choice(("", *[text(start)] * 9)),
            "completed_at": text(start + timedelta(hours=draw.random())) if status == "completed" else "",
            "total_tests": place, "downstream_repo_level": draw.choice(("L2", "L3")),
            "event_type": draw.choice(("nightly", "pull_request")),
        })  # fmt: skip
    return rows


@pytest.fixture(params=range(12))
def filled(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Store, Rows]]:
    rows = random_rows(random.Random(request.param), request.param * 30)  # noqa: S311
    store = Store(tmp_path / "hud.sqlite")
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.executemany(
            f"INSERT INTO crcr_workflow_job ({', '.join(rows[0])}) "  # noqa: S608
            f"VALUES ({', '.join(f':{name}' for name in rows[0])})",
            rows,
        ) if rows else None
    yield store, rows
    store.close()


def seconds(row: dict[str, Any]) -> float:
    if not row["started_at"] or not row["completed_at"]:
        return 0.0
    start, end = (datetime.fromisoformat(row[name]) for name in ("started_at", "completed_at"))
    return (end - start).total_seconds()


def within(rows: Rows, days: int) -> Rows:
    return [row for row in rows if row["started_at"] > text(NOW - timedelta(days=days))]


def latest(rows: Rows, *names: str) -> Rows:
    def group(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in names)

    return [
        max(same, key=lambda row: (row["run_attempt"], row["started_at"], row["dynamoKey"]))
        for _, same in groupby(sorted(rows, key=group), key=group)
    ]


def expected(row: dict[str, Any]) -> bool:
    words = {"failure": "xfail", "cancelled": "xcancel", "timed_out": "xtimeout"}
    word = words.get(row["conclusion"])
    return row["downstream_repo"] == "pytorch/crcr-test" and word is not None and word in row["job_name"]


def count(rows: Rows, conclusion: str, *, probes: bool = False) -> int:
    if probes and conclusion == "success":
        return sum(row["conclusion"] == conclusion or expected(row) for row in rows)
    return sum(row["conclusion"] == conclusion and not (probes and expected(row)) for row in rows)


def summed(rows: Rows, *, probes: bool) -> list[dict[str, Any]]:
    made = []
    for repo in {row["downstream_repo"] for row in rows}:
        own = [row for row in rows if row["downstream_repo"] == repo]
        newest = max(own, key=lambda row: row["started_at"])
        good = count(own, "success", probes=probes)
        made.append({
            "repo": repo, "downstream_repo_level": newest["downstream_repo_level"], "successes": good,
            "failures": count(own, "failure", probes=probes),
            "timed_out": count(own, "timed_out", probes=probes),
            "total": len(own), "pass_rate": good / len(own), "last_run": newest["started_at"],
            "avg_duration_s": pytest.approx(sum(map(seconds, own)) / len(own), abs=1e-3),
            "latest_sha": newest["pytorch_head_sha"],
        })  # fmt: skip
    return sorted(made, key=lambda one: (one["pass_rate"], one["repo"]))


def same(found: Any, wanted: list[dict[str, Any]]) -> None:
    told = [one.model_dump() for one in found]
    names = set(told[0]) if told else set()
    assert told == [{name: row[name] for name in names} for row in wanted]


def test_summary(filled: tuple[Store, Rows]) -> None:
    store, rows = filled
    done = [row for row in within(rows, 7) if row["status"] == "completed" and row["pr_number"] > 0]
    wanted = summed(latest(done, "downstream_repo", "pr_number", "job_name"), probes=True)
    same(hud.summary(store.database, now=NOW.timestamp(), days=7), wanted)


def test_nightly_summary(filled: tuple[Store, Rows]) -> None:
    store, rows = filled
    done = [row for row in within(rows, 7) if row["status"] == "completed" and row["event_type"] == "nightly"]
    same(hud.nightly_summary(store.database, now=NOW.timestamp(), days=7), summed(done, probes=False))


def test_backend_summary(filled: tuple[Store, Rows]) -> None:
    store, rows = filled
    own = [
        row for row in within(rows, 10)
        if row["status"] == "completed" and row["pr_number"] > 0 and row["downstream_repo"] == "o/a"
    ]  # fmt: skip

    def mean(name: str) -> Any:
        told = [row[name] for row in own if row[name] is not None]
        return pytest.approx(sum(told) / len(told)) if told else None

    total = len(own)
    same(
        [hud.backend_summary(store.database, now=NOW.timestamp(), repo="o/a", days=10)],
        [{
            "successes": count(own, "success"), "failures": count(own, "failure"),
            "timed_out": count(own, "timed_out"), "total_jobs": total,
            "pass_rate": count(own, "success") / total if total else 0.0,
            "timeout_rate": count(own, "timed_out") / total if total else 0.0,
            "total_prs": len({row["pr_number"] for row in own}),
            "avg_queue_time_s": mean("queue_time"), "avg_exec_time_s": mean("execution_time"),
        }],
    )  # fmt: skip


def test_success_rate(filled: tuple[Store, Rows]) -> None:
    store, rows = filled
    done = [row for row in within(rows, 9) if row["status"] == "completed"]
    wanted = []
    for day, repo in sorted({(row["started_at"][:10], row["downstream_repo"]) for row in done}):
        own = [row for row in done if (row["started_at"][:10], row["downstream_repo"]) == (day, repo)]
        good = count(own, "success")
        wanted.append({
            "day": day, "repo": repo, "successes": good, "failures": count(own, "failure"),
            "timed_out": count(own, "timed_out"), "total": len(own), "pass_rate": good / len(own),
        })  # fmt: skip
    same(hud.success_rate(store.database, now=NOW.timestamp(), days=9), wanted)


def test_health_last_prs(filled: tuple[Store, Rows]) -> None:
    store, rows = filled
    probes = [row for row in rows if row["downstream_repo"] == "pytorch/crcr-test" and row["pr_number"] > 0]
    since, stale = text(NOW - timedelta(minutes=5000)), text(NOW - timedelta(minutes=900))
    recent = {row["pr_number"] for row in probes if row["started_at"] >= since}
    newest = latest([row for row in probes if row["pr_number"] in recent], "run_id", "job_name")
    wanted = []
    for number in {row["pr_number"] for row in newest}:
        own = [row for row in newest if row["pr_number"] == number]
        done = [row for row in own if row["status"] == "completed"]
        good = count(done, "success", probes=True)
        waiting = [
            row
            for row in own
            if row["status"] == "in_progress" and not re.search("xfail|xtimeout", row["job_name"])
        ]
        wanted.append({
            "pr_number": number, "last_run": max(row["started_at"] for row in own), "successes": good,
            "total": len(done), "pending": len(waiting), "pass_rate": good / len(done) if done else None,
            "overdue_in_progress": sum(row["started_at"] < stale for row in waiting),
        })  # fmt: skip
    found = hud.health_last_prs(
        store.database, now=NOW.timestamp(), window_minutes=5000, stale_after_minutes=900
    )
    wanted.sort(key=lambda one: one["pr_number"])
    same(found, sorted(wanted, key=lambda one: one["last_run"], reverse=True))


@pytest.mark.parametrize(("per_page", "offset"), [(1, 0), (2, 1), (50, 0), (50, 9)])
def test_backend_dashboard(filled: tuple[Store, Rows], per_page: int, offset: int) -> None:
    store, rows = filled
    own = [row for row in within(rows, 8) if row["downstream_repo"] == "o/b" and row["pr_number"] > 0]
    newest: dict[int, str] = {}
    for row in own:
        newest[row["pr_number"]] = max(newest.get(row["pr_number"], ""), row["started_at"])
    page = sorted(newest, key=lambda number: newest[number], reverse=True)[offset : offset + per_page]
    wanted = sorted(
        (row for row in own if row["pr_number"] in page), key=lambda row: row["started_at"], reverse=True
    )
    found = hud.backend_dashboard(
        store.database, now=NOW.timestamp(), repo="o/b", days=8, per_page=per_page, offset=offset
    )
    assert [one.check_run_id for one in found] == [row["check_run_id"] for row in wanted]
    assert [one.duration_seconds for one in found] == pytest.approx(
        [seconds(row) for row in wanted], abs=1e-3
    )


def test_nightly_dashboard(filled: tuple[Store, Rows]) -> None:
    store, rows = filled

    def nightly(row: dict[str, Any]) -> str:
        sha = row["pytorch_head_sha"]
        return f"s{sha}" if re.fullmatch("[0-9a-fA-F]{40}", sha) else f"r{row['run_id'] or sha}"

    own = [row for row in rows if row["downstream_repo"] == "o/a" and row["event_type"] == "nightly"]
    since = text(NOW - timedelta(days=3))
    keys = {
        nightly(row)
        for row in own
        if row["status"] == "completed" and since <= row["completed_at"] < text(NOW)
    }
    chosen = [row for row in own if nightly(row) in keys]
    wanted = sorted(
        sorted(latest(chosen, "pytorch_head_sha", "run_id", "job_name"), key=lambda row: row["dynamoKey"]),
        key=lambda row: row["started_at"],
        reverse=True,
    )
    found = hud.nightly_dashboard(store.database, now=NOW.timestamp(), repo="o/a", days=3)
    assert [one.check_run_id for one in found] == [row["check_run_id"] for row in wanted[:500]]


@pytest.mark.parametrize("number", [1, 3, 99])
def test_pr_results(filled: tuple[Store, Rows], number: int) -> None:
    store, rows = filled
    own = [row for row in rows if row["pr_number"] == number]
    wanted = sorted(
        sorted(own, key=lambda row: row["dynamoKey"]), key=lambda row: row["started_at"], reverse=True
    )
    wanted.sort(key=lambda row: row["downstream_repo"])
    found = hud.pr_results(store.database, pr=number)
    assert [one.check_run_id for one in found] == [row["check_run_id"] for row in wanted[:100]]


@pytest.mark.parametrize("numbers", [[], [1], [3, 2, 2], [0, -4]])
def test_hud_results(filled: tuple[Store, Rows], numbers: list[int]) -> None:
    store, rows = filled
    own = [
        row
        for row in rows
        if row["pr_number"] in numbers
        and row["pr_number"] > 0
        and row["downstream_repo"] != "pytorch/crcr-test"
    ]
    names = ("pr_number", "downstream_repo", "job_name", "dynamoKey")
    wanted = sorted(own, key=lambda row: tuple(row[name] for name in names))
    found = hud.hud_results(store.database, numbers=numbers)
    assert [one.check_run_id for one in found] == [row["check_run_id"] for row in wanted]
