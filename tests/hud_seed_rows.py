"""The rows of the HUD store that made-up jobs leave, straight into its tables."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from ci.hud.payload import COUNT_OF_VERDICT
from ci.store.identity import job_number, stored_number
from tests.hud_seed_plan import CARDS, HOSTILE, OTHER, SPYRE, Case, Job, verdict_of

TEST_COLUMNS = (
    *("workflow_id", "workflow_run_attempt", "job_id", "invoking_file", "file", "classname", "name", "time"),
    *(
        "failure",
        "skipped",
        "test_id",
        "test_key",
        "place",
        "verdict",
        "cause",
        "card",
        "attempts",
        "message",
    ),
    "upload_id",
)


@dataclass(slots=True, kw_only=True)
class Account:
    """A job and the sums of its tests: by card and verdict, and by file and class."""

    job: Job
    place: int
    check: str
    total: int
    cards: Counter[tuple[str, str]] = field(default_factory=Counter)
    seconds: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    files: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    spent: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))

    @property
    def base(self) -> dict[str, int]:
        """What names the job in rows of tests."""
        number = stored_number(job_number(self.check, repository=self.job.repo), repository=self.job.repo)
        return {"workflow_id": self.job.run_id, "workflow_run_attempt": self.job.attempt, "job_id": number}

    @property
    def verdicts(self) -> Counter[str]:
        """Tests by verdict."""
        found = Counter[str]()
        for (_, verdict), tests in self.cards.items():
            found[verdict] += tests
        return found

    @property
    def counts(self) -> Counter[str]:
        """Tests by HUD's three words."""
        found = Counter[str]()
        for verdict, tests in self.verdicts.items():
            found[COUNT_OF_VERDICT[verdict]] += tests
        return found


def write(
    connection: sqlite3.Connection, draw: random.Random, job: Job, *, place: int, cases: Sequence[Case]
) -> int:
    """Write a job with its tests; gives how many rows of tests those are."""
    check = f"{HOSTILE[0]}{place}" if job.texts[0] else f"{40_000_000_000 + place}"
    account = Account(job=job, place=place, check=check, total=len(cases))
    base = tuple(account.base.values())
    tests = [(*base, *_test(draw, account, index, case)) for index, case in enumerate(cases)]
    insert_job(connection, draw, account)
    marks = ", ".join("?" for _ in TEST_COLUMNS)
    connection.executemany(f"INSERT INTO test_run ({', '.join(TEST_COLUMNS)}) VALUES ({marks})", tests)  # noqa: S608
    _insert(connection, "job_card", [
        {**account.base, "card": card, "verdict": verdict, "tests": number,
         "seconds": account.seconds[card, verdict]}
        for (card, verdict), number in account.cards.items()
    ])  # fmt: skip
    _insert(connection, "test_run_summary", [_summary(account, *key) for key in account.spent])
    return len(tests)


def _test(draw: random.Random, account: Account, index: int, case: Case) -> tuple[Any, ...]:
    job = account.job
    card = CARDS[(index + account.place) % len(CARDS)] if job.repo == SPYRE else ""
    verdict, cause, message, attempts = verdict_of(draw, job, case, card)
    took = 0.0 if verdict in {"skipped", "not_run"} else round(case.seconds * draw.uniform(0.85, 1.2), 4)
    if case.kind == "good" and case.key % 41 == 0 and job.day > 80:
        took *= 2.5  # a slow-down to find
    where = "" if verdict == "not_run" else card
    account.cards[where, verdict] += 1
    account.seconds[where, verdict] += took
    account.files[case.file, case.classname, COUNT_OF_VERDICT[verdict]] += 1
    account.spent[case.file, case.classname] += took
    said = json.dumps({"message": message}) if verdict in {"failed", "skipped"} else ""
    return (
        case.file[5:-3], case.file, case.classname, case.name, took, said if verdict == "failed" else "",
        said if verdict == "skipped" else "", case.id, case.key, 0, verdict, cause, where, attempts, message,
        account.place,
    )  # fmt: skip


def _summary(account: Account, file: str, classname: str) -> dict[str, Any]:
    counts = {kind: account.files[file, classname, kind] for kind in ("passed", "failed", "skipped")}
    return {
        **account.base, "invoking_file": file[5:-3], "file": file, "classname": classname,
        "tests": sum(counts.values()), "errors": 0, "failures": counts["failed"],
        "skipped": counts["skipped"], "successes": counts["passed"], "time": account.spent[file, classname],
    }  # fmt: skip


def insert_job(connection: sqlite3.Connection, draw: random.Random, account: Account) -> None:
    """Write the row of a job whose tests are summed, and what it says of itself."""
    job, counts = account.job, account.counts
    # A few failures are everyday.
    conclusion = job.conclusion or ("failure" if counts["failed"] > 0.04 * account.total else "success")
    took = 240 + 3 * job.share * draw.uniform(8, 14) * (1.3 if job.event == "nightly" else 0.5)
    name = job.texts[0] or f"{job.start:%Y%m%d}-{job.lane}-{job.run_id % 100_000}"
    row: dict[str, Any] = {
        "id": account.place,
        "dynamoKey": f"{job.repo}/{job.delivery}/{job.workflow}/{job.job}/{account.check}",
        "status": job.status, "downstream_repo": job.repo, "upstream_repo": "pytorch/pytorch",
        "pr_number": job.pr, "pytorch_head_sha": job.sha, "delivery_id": job.delivery,
        "workflow_run_url": job.texts[1] or f"https://ci.example/{job.repo}/actions/runs/{job.run_id}",
        "workflow_name": job.workflow, "job_name": job.job, "check_run_id": account.check,
        "run_id": str(job.run_id), "run_attempt": job.attempt, "conclusion": conclusion,
        "queue_time": round(draw.expovariate(1 / 300), 3) if job.pr else None,
        "execution_time": round(took, 3) if job.pr else None, "started_at": _text(job.start),
        "completed_at": _text(job.start + timedelta(seconds=took)), "total_tests": account.total,
        "passed_tests": counts["passed"], "failed_tests": counts["failed"],
        "skipped_tests": counts["skipped"], "artifact_url": job.texts[1], "environment": "",
        "downstream_repo_level": "L2" if job.repo == OTHER else "L3", "event_type": job.event,
        "job_id": account.base["job_id"],
    }  # fmt: skip
    if job.repo == SPYRE:
        detail = _detail(draw, account, name, took)
        said = {key: detail[key] for key in ("run", "lane", "device", "pytorch", "stage", "percent")}
        row["environment"] = json.dumps(said | {"verdicts": dict(account.verdicts)})
        _insert(connection, "job_detail", [{"dynamoKey": row["dynamoKey"], **detail}])
    _insert(connection, "crcr_workflow_job", [row])


def _detail(draw: random.Random, account: Account, name: str, took: float) -> dict[str, Any]:
    job, verdicts, total = account.job, account.verdicts, account.total
    seconds = sum(account.seconds.values())
    passed = verdicts["passed"] + verdicts["flaky"] + verdicts["xpassed"]
    return {
        "run": name, "lane": job.lane, "provider": "github", "device": "spyre", "pytorch": "2.13.0",
        "stage": job.stage, "percent": job.share, "exit_code": 0, "cards": len(CARDS),
        "in_scope": round(total * 100 / job.share), "selected": total,
        "ran": total - verdicts["not_run"] - verdicts["skipped"], "passed": passed,
        "in_scope_seconds": seconds * 100 / job.share, "selected_seconds": seconds,
        "ran_seconds": seconds * 0.98, "passed_seconds": seconds * passed / max(total, 1),
        "first_failure_seconds": took * draw.uniform(0.05, 0.6) if verdicts["failed"] else None,
    }  # fmt: skip


def _insert(connection: sqlite3.Connection, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        names = list(rows[0])
        marks = ", ".join(f":{name}" for name in names)
        connection.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", rows)  # noqa: S608


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
