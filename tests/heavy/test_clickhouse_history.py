"""The history asked of ClickHouse: what SQLite says of the same runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from typing import Any

import pytest

from ci.hud.runs import record_run
from ci.record.identity import RunIdentity
from ci.record.result import Result
from ci.record.verdict import Verdict
from ci.report.flakes import find_flakes
from ci.report.history import (
    History,
    export_durations,
    failure_shares,
    overview,
    past_outcomes,
    past_seconds,
)
from ci.report.store import Kept
from ci.store.clickhouse import Clickhouse, ClickhouseRowStore
from ci.store.replicate import Copier
from ci.store.row_store import SqliteRowStore
from ci.store.store import Store
from tests.past_runs import REPOSITORY, past_run

pytestmark = pytest.mark.nightly

T0 = 1_770_000_000.0
TESTS = [f"test_{number % 3}.py::T::t{number}" for number in range(12)]
ASKED: dict[str, Callable[[History], Any]] = {
    "durations": export_durations,
    "of a device": lambda history: export_durations(history, device="cpu"),
    "failure shares": lambda history: failure_shares(history, device="spyre"),
    "past seconds": lambda history: past_seconds(history, device="spyre", until=T0 + 12, names=TESTS),
    "past outcomes": lambda history: past_outcomes(history, test=TESTS[0], device="spyre", lane="nightly"),
    "overview": overview,
    "flakes": lambda history: find_flakes(history, device="spyre", since=T0 + 3),
}


def identity(number: int) -> RunIdentity:
    return RunIdentity(
        run=f"r{number}",
        run_id=number + 1,
        run_attempt=1,
        lane="nightly" if number % 4 else "weekly",
        device="spyre" if number % 5 else "cpu",
        started_at=T0 + number,
        stage=1,
        percent=5.0,
        pytorch_version="2.13.0",
        pytorch_sha=f"{number % 3:040x}",
    )


def results(rng: random.Random) -> list[Result]:
    verdicts = [Verdict.PASSED] * 6 + [Verdict.FAILED, Verdict.FLAKY, Verdict.SKIPPED, Verdict.NOT_RUN]
    return [
        Result(id=test, verdict=rng.choice(verdicts), seconds=rng.randrange(100) / 8, attempts=1)
        for test in rng.sample(TESTS, 8)
    ]


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[History, History]]:
    """The same runs in SQLite, and in ClickHouse with the list in SQLite."""
    pytest.importorskip("chdb", reason="chdb is not installed")
    folder = tmp_path_factory.mktemp("history")
    rng = random.Random(7)  # noqa: S311  # no secret
    with (
        closing(Clickhouse(f"chdb:///{folder / 'chdb'}")) as clickhouse,
        closing(Store(folder / "alone.sqlite")) as alone,
        closing(Store(folder / "ledger.sqlite", clickhouse)) as ledger,
    ):
        for number in range(25):
            run = past_run(identity(number), results(rng), {"test_0.py": [rng.random()]})
            for kept in (
                Kept(store=alone, rows=SqliteRowStore(alone.transaction)),
                Kept(store=ledger, rows=ClickhouseRowStore(clickhouse)),
            ):
                record_run(kept, run, repository=REPOSITORY, at=T0 + number)
        assert Copier(ledger, clickhouse, warn=print).copy()
        yield History(alone.path), History(ledger.path, lambda: nullcontext(clickhouse))


@pytest.mark.parametrize("asked", sorted(ASKED))
def test_clickhouse_says_of_past_runs_what_sqlite_says(
    histories: tuple[History, History], asked: str
) -> None:
    sqlite, clickhouse = map(ASKED[asked], histories)
    assert clickhouse == sqlite
    assert sqlite
