from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ci.config import load_settings
from ci.live.sink import Sink
from ci.runner.journal import Event, Journal
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from ci.steps.replaying import in_order, replay_step
from test_selection.plan import Group, Plan, Shard, fingerprint, write_plan

ID = "test_a.py::T::test"
T0 = 1_770_000_000.0


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


def test_an_event_without_a_time_that_can_be_is_as_late_as_the_one_before_it() -> None:
    found = journal(0, 0, 5, 0, 0, 0, 6)
    times = [None, 5, "x", 10**400, 1e17, 6]
    events = [{**event, "t": time} for event, time in zip(found.events, times, strict=True)]
    del events[2]["t"]
    rows = in_order([Journal(path=found.path, shard=0, attempt=1, events=events)])
    assert [moment for moment, _, _ in rows] == [5, 5, 5, 5, 5, 6]


def events_of_a_run() -> list[dict[str, Any]]:
    return [
        {"e": "shard_start", "t": T0, "attempt": 1, "card": "cpu:0", "fingerprint": "f"},
        {"e": "group_start", "t": T0 + 1, "file": "test_a.py", "tests": 1},
        {"e": "start", "t": T0 + 2, "id": ID},
        {"e": "end", "t": T0 + 3, "id": ID, "outcome": "passed", "seconds": 1.0},
        {"e": "shard_end", "t": T0 + 4, "status": "done"},
    ]


def replayed(folder: Path, events: list[dict[str, Any]], slept: list[float]) -> str:
    """What is shown of a journal without checksums."""
    shards = (Shard(index=0, expected_s=1.0, groups=(Group(file="test_a.py", ids=(ID,)),)),)
    plan = Plan(shards=shards, makespan_s=1.0, bound_s=1.0, binds="work", fingerprint=fingerprint(shards))
    write_plan(folder / "plan.json", plan)
    (folder / "journal").mkdir()
    lines = "".join(f"{json.dumps(event)}\n" for event in events)
    (folder / "journal" / "0-1.jsonl").write_text(lines, encoding="ascii")
    said = io.StringIO()
    context = Context(
        settings=load_settings(path=None, environ={}, flags={}, cwd=folder), environ={},
        clock=lambda: 1.0, monotonic=lambda: 2.0, console=Console(file=said, width=200), cores=2,
    )  # fmt: skip

    def no_events(_: Callable[[], float]) -> nullcontext[Sink | None]:
        return nullcontext(None)

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        assert len(slept) < 1000, "it waits without end"

    replay_step(context, RunFolder(path=folder), speed=1.0, open_events=no_events, sleep=sleep)
    return said.getvalue()


@pytest.mark.parametrize(
    ("place", "key", "value"),
    [
        (0, "t", None),
        (2, "t", None),
        (3, "t", 10**400),
        (3, "t", 1e17),
        (0, "card", None),
        (0, "card", ["x"]),
    ],
    ids=["no first time", "no time", "a huge number", "a time too great", "no card", "a list of cards"],
)
def test_a_journal_without_checksums_is_shown_whatever_its_values(
    place: int, key: str, value: object, tmp_path: Path
) -> None:
    events = events_of_a_run()
    events[place][key] = value
    slept: list[float] = []
    assert "test_a.py: 1 passed" in replayed(tmp_path, events, slept)
    assert sum(slept) < 10


def test_a_run_whose_journal_names_no_card_is_shown(tmp_path: Path) -> None:
    events = events_of_a_run()
    del events[0]["card"]
    assert "test_a.py: 1 passed" in replayed(tmp_path, events, [])


def test_the_longest_time_without_an_event_is_cut(tmp_path: Path) -> None:
    events = events_of_a_run()
    events[-1]["t"] = 9e10
    slept: list[float] = []
    replayed(tmp_path, events, slept)
    assert sum(slept) == pytest.approx(123.0)
