from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import ci.report.live
from ci.record.verdict import Verdict
from ci.report.live import stream
from ci.report.live.sink import encode

from .small_states import A, B, Feed, small_state

ROOT = Path(__file__).parents[4]
SCHEMA: dict[str, Any] = json.loads(
    (Path(ci.report.live.__file__).parent / "events.schema.json").read_text(encoding="utf-8")
)
KINDS = [one["if"]["properties"]["event"]["const"] for one in SCHEMA["allOf"]]
CHECK = jsonschema.Draft202012Validator(SCHEMA)


def a_whole_run() -> list[dict[str, Any]]:
    """One event of every kind at least, as they go over the wire."""
    feed = Feed(small_state())
    rows = [stream.run_start(feed.state, run="r", fingerprint="f")]
    feed.begin(0, "a.py")
    feed.test(0, A, "failed", "it broke")
    feed.test(0, A, "passed", number=2)
    feed.event(0, "start", id=B)
    feed.event(0, "crash", id=B, cause="signal", message="died by SIGSEGV", detail="x", seconds=2.0)
    feed.event(1, "shard_start", attempt=1, card="card:1")
    feed.event(1, "file_error", file="b.py", message="ImportError: x", detail="")
    feed.event(1, "worker_lost", id=None, message="gone")
    feed.event(1, "card_lost", card="card:1", message="lost 2 times")
    feed.news += feed.state.finish(99.0, interrupted=False)
    rows += [stream.row(one) for one in feed.news]
    rows += [{"event": "gap", "dropped": 3}, stream.run_end(feed.state.counts, 3)]
    return [json.loads(encode(row, 12.5)) for row in rows]


def test_every_event_is_as_its_schema_has_it_and_every_kind_is_told() -> None:
    CHECK.check_schema(SCHEMA)
    rows = a_whole_run()
    for row in rows:
        CHECK.validate(row)
    assert (
        {row["event"] for row in rows}
        == set(KINDS)
        == set(SCHEMA["$defs"]) - {"outcome", "verdict", "counts"}
    )


def test_every_key_that_is_written_is_one_the_schema_describes() -> None:
    for row in a_whole_run():
        known = {"v", "time", "event", *SCHEMA["$defs"][row["event"]]["properties"]}
        assert set(row) <= known


def test_the_schema_would_find_a_wrong_event_and_lets_unknown_ones_pass() -> None:
    good = next(row for row in a_whole_run() if row["event"] == "test")
    CHECK.validate({**good, "colour": "red"})
    CHECK.validate({"v": 1, "time": 1.0, "event": "tea"})
    for bad in (
        {**good, "v": 2},
        {**good, "outcome": "flaky"},
        {**good, "seconds": -1},
        {**good, "id": None},
    ):
        with pytest.raises(jsonschema.ValidationError):
            CHECK.validate(bad)


def test_who_follows_the_events_knows_every_tests_verdict() -> None:
    rows = a_whole_run()
    verdicts = {row["id"]: row["verdict"] for row in rows if row["event"] == "test"}
    counts = {verdict.value: list(verdicts.values()).count(verdict) for verdict in Verdict}
    assert rows[-1]["counts"] == counts
    assert rows[0]["planned"] == sum(counts.values())


def test_the_document_names_every_kind_and_its_keys() -> None:
    text = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE))
    assert set(rows) == set(KINDS)
    for kind, keys in rows.items():
        assert re.findall(r"`(\w+)`", keys) == list(SCHEMA["$defs"][kind]["properties"])


def test_a_line_is_ascii_and_nothing_in_it_is_a_command_to_github() -> None:
    row = {"event": "test", "id": "a ##[error]\u2028\ud800\n::error::x"}
    line = encode(row, 1.0)
    assert line.isascii()
    assert line.count("\n") == 1
    assert "##[" not in line
    assert json.loads(line)["id"] == row["id"]
