"""A release is written once, whole, and read back as it was; a failure costs one release."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.config.pins_model import Track
from ci.core.errors import BadFileError
from ci.pins.events import Event, Flagged, TakenBack, read_events
from ci.pins.record import (
    Flag,
    PackageChange,
    Parameter,
    Record,
    RecordedOtherwiseError,
    changes,
    file_name,
    in_order,
    read_records,
    write_record,
)
from ci.pins.recording import Recorded, Release, UntoldError, linked, record_releases, recorded_as, told_since
from ci.pins.state import fold

DAY = datetime(2026, 3, 1, tzinfo=UTC)
A, B = "a" * 64, "b" * 64


def record(
    version: str = "1.0", sha: str = A, *, days: int = 0, torch: str = "2.12.0", **more: Any
) -> Record:
    about: dict[str, Any] = {
        "track": "image", "version": version, "sha": sha, "source": "here", "recorded_at": DAY,
        "released_at": DAY + timedelta(days=days), "packages": {"torch": torch, "numpy": "2.1.0"},
        "direct": {"torch": torch, "flash-attn": None},
    }  # fmt: skip
    return Record.model_validate({**about, **more})


def test_a_record_is_read_back_as_it_was_written_in_order_and_once(tmp_path: Path) -> None:
    parameter = Parameter(name="x", kind="keyword-only", default="None")
    wanted = record(signatures={"a:f": (parameter,), "a:gone": None}, flags=("major",))
    folder = tmp_path / "image"
    assert read_records(folder) == []
    path = write_record(folder, wanted)
    before = path.read_bytes(), path.stat().st_mtime_ns
    later = wanted.model_copy(update={"recorded_at": DAY + timedelta(days=1)})
    assert write_record(folder, later) == path
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    with pytest.raises(RecordedOtherwiseError, match=r"other content \(packages\)") as caught:
        write_record(folder, wanted.model_copy(update={"packages": {"torch": "2.14.0"}}))
    assert (caught.value.exit_code, caught.value.where, path.read_bytes()) == (1, str(path), before[0])
    said = json.loads(path.read_text())
    assert (path.name, next(iter(said)), list(said["packages"])) == (
        f"1.0-{A[:12]}.json",
        "schema",
        ["numpy", "torch"],
    )
    (folder / "events.jsonl").write_text("{}\n")
    assert read_records(folder) == [wanted]


def test_releases_come_by_time_then_as_versions_go(tmp_path: Path) -> None:
    told = [("0.1", 1), ("1.10", 0), ("latest", 0), ("1.9", 0), ("1.10rc1", 0)]
    for version, days in told:
        write_record(tmp_path / "image", record(version, days=days))
    write_record(tmp_path / "image", record("0.1", B, days=2))
    found = [f"{one.version}{one.sha[0]}" for one in read_records(tmp_path / "image")]
    assert found == ["1.9a", "1.10rc1a", "1.10a", "latesta", "0.1a", "0.1b"]
    undated = record(released_at=None, recorded_at=DAY - timedelta(days=1))
    assert sorted([record(), undated], key=in_order) == [undated, record()]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"packages": 3}, "is not a record: packages: "),
        ({"unknown": 3}, "is not a record: unknown: "),
        ({"sha": "xyz"}, "is not a record: sha: "),
        ({"schema": "spyre-ci/plan/1"}, "schema is 'spyre-ci/plan/1'"),
        ({"version": "2.0"}, r"is the record of image 2.0 \(aaaaaaaaaaaa\), which has another file name"),
        ({"track": "other"}, "is the record of other 1.0"),
        (None, "cannot be read as JSON"),
    ],
)
def test_a_file_that_is_no_record_is_named(tmp_path: Path, change: dict[str, Any] | None, said: str) -> None:
    path = write_record(tmp_path / "image", record())
    text = path.read_text()
    path.write_text(text[:40] if change is None else json.dumps({**json.loads(text), **change}))
    for work in (lambda: read_records(path.parent), lambda: write_record(path.parent, record())):
        with pytest.raises(BadFileError, match=said) as caught:
            work()
        assert caught.value.where == str(path)


@given(version=st.text(max_size=300), sha=st.text("0123456789abcdef", min_size=64, max_size=64))
def test_whatever_a_release_is_called_its_file_is_in_its_folder(version: str, sha: str) -> None:
    name = file_name(version, sha)
    assert Path(name).name == name
    assert len(name.encode()) <= 255


def test_only_what_changed_is_told() -> None:
    found = changes(["torch", "numpy", "gone", "new", "never"], {"torch": "1", "numpy": "2", "gone": "3"},
                    {"torch": "2", "numpy": "2", "new": "4"})  # fmt: skip
    assert list(map(str, found)) == ["gone 3 was removed", "new 4 is new", "torch 1 -> 2"]
    assert found[2] == PackageChange(name="torch", before="1", after="2")


def release(version: str = "1.0", sha: str = A, **more: Any) -> Release:
    return Release(version=version, sha=sha, **more)


@dataclass
class Fake:
    """A source whose releases are named, some of which cannot be looked at."""

    there: Sequence[Release]
    bad: Sequence[str] = ()
    days: dict[str, int] = field(default_factory=dict)
    name: str = "here"

    def releases(self, only: str | None) -> list[Release]:
        return [one for one in self.there if only in {None, one.version}]

    def look(self, one: Release) -> dict[str, Any]:
        if one.version == "interrupt":
            raise KeyboardInterrupt
        if one.version in self.bad:
            raise UntoldError("says nothing")
        at = DAY + timedelta(days=self.days.get(one.version, 0))
        return {"sha": one.sha, "packages": {"torch": f"2.{at.day}"}, "read_by": "x", "released_at": at}


def recorded(folder: Path, source: Fake, flags: Sequence[Flag] = ()) -> Recorded:
    wanted = Track(image="quay.io/spyre/runtime", direct=["torch", "flash-attn"])
    return record_releases(folder, source, wanted, None, flags, clock=lambda: DAY, echo=lambda _: None)


@pytest.mark.parametrize(
    ("one", "known"),
    [
        (release(), True),
        (release("2.0"), False),
        (release(sha=B), False),
        (release(sha=B, also=frozenset({A, B})), True),
        (release(sha=""), True),
        (release(yanked="broken"), True),
    ],
)
def test_what_the_ledger_has_not_is_new(one: Release, known: bool) -> None:
    assert bool(recorded_as(one, [record(), record(sha="c" * 64)])) is known


def test_the_oldest_is_written_first_and_compared_with_the_one_before_it(tmp_path: Path) -> None:
    folder = tmp_path / "image"
    found = recorded(folder, Fake([release("2.0", B), release("1.0", A)], days={"2.0": 1}), flags=["major"])
    assert [one.version for one in found.written] == ["1.0", "2.0"]
    first, second = read_records(folder)
    assert (first.previous, first.changes, first.flags) == ("", (), ("major",))
    assert (first.track, first.direct) == ("image", {"torch": "2.1", "flash-attn": None})
    assert (second.previous, [str(one) for one in second.changes]) == (
        file_name("1.0", A),
        ["torch 2.1 -> 2.2"],
    )
    moved = recorded(folder, Fake([release("1.0", "c" * 64)]))
    assert moved.remarks == [f"1.0 has changed: {A[:12]} is recorded, and the source has {'c' * 12}"]
    # What is tracked from now on was installed before.
    before = record().model_copy(update={"direct": {}})
    assert linked(record("1.1", B, days=1), [before]).changes == ()


def test_a_release_that_cannot_be_looked_at_holds_up_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "image"
    found = recorded(folder, Fake([release("1.0"), release("2.0", B)], bad=["1.0"]))
    assert {version: error.what for version, error in found.failed.items()} == {"1.0": "says nothing"}
    assert [one.version for one in read_records(folder)] == ["2.0"]
    with pytest.raises(KeyboardInterrupt):
        recorded(folder, Fake([release("1.0"), release("interrupt", B)]))
    assert [one.version for one in read_records(folder)] == ["1.0", "2.0"], "what was looked at is kept"


def test_what_is_said_of_a_release_later_is_told_once() -> None:
    about: dict[str, Any] = {"at": DAY, "version": "1.0", "sha": A}
    events: list[Event] = []
    steps: list[tuple[list[Release], list[Flag], list[Event]]] = [
        ([release()], ["major"], [Flagged(flags=("major",), **about)]),
        ([release(yanked="broken\n\x1b[31m")], [], [TakenBack(text="broken", **about)]),
        ([release(yanked="broken")], [], []),
        (
            [release()],
            ["performance"],
            [TakenBack(text=None, **about), Flagged(flags=("performance",), **about)],
        ),
        ([release(), release("2.0")], ["performance", "major"], []),
        ([release(sha=B, yanked="x")], ["performance"], []),
    ]
    for releases, flags, wanted in steps:
        there = list(fold([record()], events, now=DAY).records.values())
        found = list(told_since(releases, there, flags, DAY))
        assert found == wanted
        events += found
    [now] = fold([record()], events, now=DAY).records.values()
    assert (now.yanked, now.flags) == (None, ("major", "performance"))


def test_what_is_said_of_a_release_later_is_an_event_and_the_record_stays(tmp_path: Path) -> None:
    folder = tmp_path / "image"
    recorded(folder, Fake([release("1.0")]))
    before = read_records(folder)
    found = recorded(folder, Fake([release("1.0", yanked="broken")]), flags=["major"])
    assert found.remarks == [
        "1.0 was withdrawn after it was recorded: broken", "1.0 is now flagged major",
    ]  # fmt: skip
    assert (found.known, read_records(folder)) == (1, before)
    assert [one.kind for one in read_events(folder)] == ["taken-back", "flagged"]
    assert recorded(folder, Fake([release("1.0", yanked="broken")]), flags=["major"]).remarks == []
    assert recorded(folder, Fake([release("1.0")])).remarks == ["1.0 was withdrawn, and is available again"]


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["1.0", "1.1", "latest"])), unique=True))
def test_in_any_order_each_release_follows_the_last_one_before_it(told: list[tuple[int, str]]) -> None:
    records: list[Record] = []
    for number, (days, version) in enumerate(told):
        records.append(linked(record(version, f"{number:064x}", days=days), records))
        earlier = [one for one in records if in_order(one) < in_order(records[-1])]
        wanted = max(earlier, key=in_order, default=None)
        assert records[-1].previous == (file_name(wanted.version, wanted.sha) if wanted else "")
