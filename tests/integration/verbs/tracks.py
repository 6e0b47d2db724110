"""What verbs of lanes and pins find: a lane that nox runs, two tracks with their ledgers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from ci.pins.events import Event, Requested, Upgraded, add_event
from ci.pins.record import Record, write_record
from tests.packages import make_wheel

from . import cards
from .world import World

NOX = "#!/bin/sh\necho ran $*\n"
LANES = """\
lane_worker: {poll_s: 0.1}
lanes:
  nightly: {run: {session: {name: tests}}, cadence: {after_end: {min: 1, max: 2}}}
"""
CI_LANE = """\
lanes:
  nightly:
    run: {pytorch: {}}
    cadence: {cron: 17 2 * * *}
    begun_by: {github: nightly.yml}
  night:
    run: {pytorch: {}}
    cadence: {cron: 23 1 * * *}
    begun_by: {jenkins: spyre/nightly}
"""
WORKFLOW = "on:\n  schedule:\n    - cron: 17 2 * * *\njobs: {}\n"
TRACKS = """\
pins:
  tracks:
    torch:
      package: torch-demo
      index: "%s"
      direct: [numpy]
      pin: {file: stack.yaml, key: variants.pinned.version}
    runtime:
      package: runtime-demo
      index: "%s"
      direct: [torch]
"""
STACK = "variants:\n  pinned:\n    version: '2.9'\n"


def lanes(world: World) -> None:
    """A lane whose session stands for nox, and is done at once."""
    nox = world.base / "bin" / "nox"
    nox.parent.mkdir()
    nox.write_text(NOX, encoding="utf-8")
    nox.chmod(0o755)
    world.patch.setenv("PATH", f"{nox.parent}:{os.environ['PATH']}")
    world.settings(LANES)


def lanes_of_a_ci(world: World) -> None:
    """Lanes that GitHub and Jenkins begin, and GitHub's file of one."""
    world.settings(CI_LANE)
    world.write(".github/workflows/nightly.yml", WORKFLOW)


def pins(world: World, index: str = "http://127.0.0.1:9/simple/") -> None:
    """Two tracks with releases, of which one is pinned and asked to change."""
    world.settings(TRACKS % (index, index))
    world.write("stack.yaml", STACK)
    now = datetime.now(UTC)
    for track, versions in {"torch": ("2.9", "2.10"), "runtime": ("2.3.0", "2.4.0")}.items():
        for number, version in enumerate(versions):
            record = Record(
                track=track, version=version, sha=f"{number + 1}" * 64, source="here", recorded_at=now,
                released_at=now - timedelta(days=60 - 30 * number),
                packages={"torch": version}, direct={"torch": version},
            )  # fmt: skip
            write_record(world.folder / "pins" / track, record)
    folder = world.folder / "pins" / "torch"
    events: list[Event] = [
        Upgraded(at=now - timedelta(days=40), version="2.9", sha="1" * 64, reasons=("it was due",)),
        *(Requested(at=now, id=number, reason="bug", text=f"it is wrong {number}") for number in (1, 2, 3)),
    ]
    for event in events:
        add_event(folder, partial(_event, event))
    cards.repository(world)


def _event(event: Event, _: Sequence[Event]) -> Event:
    return event


def index(world: World) -> None:
    """The same, whose releases an index has."""
    address = world.request.getfixturevalue("index")
    packages = world.base.parent / "index" / "packages"
    for name, version in (("torch-demo", "2.11"), ("runtime-demo", "2.4.0")):
        make_wheel(packages, name, version=version)
    pins(world, f"{address}/simple/")
    for path in (world.folder / "pins" / "runtime").glob("2.4.0*"):
        path.unlink()
