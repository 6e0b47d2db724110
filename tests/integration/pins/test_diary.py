"""Processes that write a track's events at once, and one that dies in the middle."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ci.pins.diary import read_events
from ci.pins.events import Requested

WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from ci.pins.diary import add_event
from ci.pins.diary import next_id
from ci.pins.events import Requested

for number in range(40):
    add_event(Path(sys.argv[1]), lambda events: Requested(
        at=datetime.now(UTC), id=next_id(events), reason="bug", text=f"{sys.argv[2]} {number}"))
"""


def test_processes_that_write_at_once_lose_nothing_and_number_nothing_twice(tmp_path: Path) -> None:
    folder = tmp_path / "torch"
    argv = [sys.executable, "-c", WRITER, str(folder)]
    writers = [subprocess.Popen([*argv, name]) for name in ("one", "two", "three")]
    assert [one.wait(120) for one in writers] == [0, 0, 0]
    requests = [one for one in read_events(folder) if isinstance(one, Requested)]
    assert [one.id for one in requests] == list(range(1, 121))
    for name in ("one", "two", "three"):
        said = [one.text for one in requests if one.text.startswith(f"{name} ")]
        assert said == [f"{name} {number}" for number in range(40)]


def test_a_writer_that_is_killed_frees_the_file(tmp_path: Path) -> None:
    held = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'ab'); fcntl.flock(f, 2); print('held', flush=True);"
        "time.sleep(600)"
    )
    path = tmp_path / "events.jsonl"
    with subprocess.Popen([sys.executable, "-c", held, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        process.kill()
    assert read_events(tmp_path) == []
