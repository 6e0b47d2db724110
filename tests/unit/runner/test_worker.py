from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from ci.record import events
from ci.record.journal import read_journal
from ci.runner import worker
from ci.runner.channel import Lines, Order, Task
from ci.runner.child import NEVER_ENDS, ChildProcess, Pipes
from ci.runner.shard_journals import new_attempt
from ci.runner.watchdog import ChildMonitor
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


@pytest.mark.parametrize(
    ("ends", "said"),
    [(True, "card message: RAS::PCI::BusFence"), (False, f"{NEVER_ENDS}: the one that ran test_a.py")],
    ids=["its last words name the card", "it never ends"],
)
def test_a_card_that_fails_as_a_child_ends_is_told_of_in_the_journal_of_the_next_shard(
    ends: bool, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = [new_attempt(tmp_path, shard, 1) for shard in (0, 1)]
    task = Task(
        run="r", tests=tmp_path, device="cpu", threads=1, method="fork", test_timeout_s=1, setup_timeout_s=0,
        grace_s=0, parent=1, fingerprint="f", card="cpu:0", attempt=attempts[0],
    )  # fmt: skip
    orders, answers = os.pipe()
    made = worker.Worker(task, Lines(orders), answers)
    child, pipes = Mock(spec=ChildProcess, pid=1, log=tmp_path / "log"), Mock(spec=Pipes)
    child.poll.return_value = 0 if ends else None
    monitor = ChildMonitor(made._journal, made._limits, lambda: 0.0)
    if ends:
        fault = events.CardFault(message=said, ras="RAS::PCI::BusFence")
        pipes.dismiss.side_effect = lambda: made._journal.write(fault)
    made._held = worker._Held(file="test_a.py", child=child, pipes=pipes, monitor=monitor)
    monkeypatch.setattr(worker, "gone", lambda _: ends)
    monkeypatch.setattr(worker, "end_orphans", lambda *_, **__: None)
    made._obey(Order(do="shard", shard=attempts[1]))
    made._obey(Order(do="shard", shard=attempts[0]))  # what was told once is not told again
    rows = [
        rows_of(read_journal(tmp_path / "journal" / f"{shard}-1.jsonl", shard, 1).events) for shard in (0, 1)
    ]
    assert [row["e"] for row in rows[1]] == ["shard_start", "card_fault", "shard_end"]
    assert (rows[1][1]["message"], bool(rows[1][1]["ras"])) == (said, ends)
    assert [row["e"] for row in rows[0]].count("card_fault") == 1
    for descriptor in (orders, answers):
        os.close(descriptor)
