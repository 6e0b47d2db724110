from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci.record.journal import read_journal
from ci.runner import worker
from ci.runner.attempts import new_attempt
from ci.runner.channel import Lines, Order, Task
from ci.runner.child import NEVER_ENDS
from tests.journal_rows import rows_of


def test_a_log_is_begun_anew_before_it_fills_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "MAX_LOG_BYTES", 10)
    log = tmp_path / "0-1.log"
    worker.stem_flood(log)
    log.write_bytes(b"x" * 10)
    worker.stem_flood(log)
    assert log.stat().st_size == 10
    log.write_bytes(b"x" * 11)
    worker.stem_flood(log)
    assert log.stat().st_size == 0


def test_a_child_that_never_ends_is_told_of_in_the_journal_of_the_next_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = [new_attempt(tmp_path, shard, 1) for shard in (0, 1)]
    task = Task(
        run="r", tests=tmp_path, device="cpu", threads=1, method="fork", test_timeout_s=1, setup_timeout_s=1,
        grace_s=1, parent=1, fingerprint="f", card="cpu:0", attempt=attempts[0],
    )  # fmt: skip
    orders, answers = os.pipe()
    made = worker.Worker(task, Lines(orders), answers)
    monkeypatch.setattr(made, "_dismiss", lambda: setattr(made, "_sick", True))
    made._obey(Order(do="shard", shard=attempts[1]))
    rows = [
        rows_of(read_journal(tmp_path / "journal" / f"{shard}-1.jsonl", shard, 1).events) for shard in (0, 1)
    ]
    assert [row["e"] for row in rows[0]] == ["shard_start", "shard_end"]
    assert [row["e"] for row in rows[1]] == ["shard_start", "card_fault"]
    assert rows[1][1]["message"].startswith(NEVER_ENDS)
    for descriptor in (orders, answers):
        os.close(descriptor)
