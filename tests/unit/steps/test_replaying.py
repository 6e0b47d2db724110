from __future__ import annotations

from pathlib import Path

from ci.runner.journal import Event, Journal
from ci.steps.replaying import in_order


def journal(shard: int, *times: float) -> Journal:
    events: list[Event] = [
        {"e": "start", "t": time, "id": f"{shard}.{place}"} for place, time in enumerate(times)
    ]
    return Journal(path=Path(f"{shard}-1.jsonl"), shard=shard, attempt=1, events=events)


def test_events_of_all_journals_come_by_time() -> None:
    found = list(in_order([journal(0, 1, 4, 4), journal(1, 2, 3, 9)]))
    assert [event["id"] for _, _, event in found] == ["0.0", "1.0", "1.1", "0.1", "0.2", "1.2"]
    assert [shard for _, shard, _ in found] == [0, 1, 1, 0, 0, 1]


def test_a_clock_that_was_set_back_changes_no_journals_own_order() -> None:
    found = list(in_order([journal(0, 5, 1, 2, 6), journal(1, 3, 7)]))
    assert [event["id"] for _, _, event in found] == ["1.0", "0.0", "0.1", "0.2", "0.3", "1.1"]
    assert [moment for moment, _, _ in found] == [3, 5, 5, 5, 6, 7]
