"""Which releases are new, what each is written down as, and that one failure costs one release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.config.pins_model import Track
from ci.pins.diary import read_events
from ci.pins.events import Event, Flagged, TakenBack
from ci.pins.ledger import in_order, read_records
from ci.pins.record import Flag, Record, file_name
from ci.pins.recording import Recorded, linked, new_releases, record_of, record_releases, told_since
from ci.pins.situation import as_told
from ci.pins.sources import Release, Seen, UntoldError

DAY = datetime(2026, 3, 1, tzinfo=UTC)
A, B = "a" * 64, "b" * 64
WANTED = Track(image="quay.io/spyre/runtime", direct=["torch", "flash-attn"])


def release(version: str = "1.0", sha: str = A, **more: object) -> Release:
    return Release(version=version, sha=sha, **more)  # type: ignore[arg-type]  # of a test's own making


def record(version: str = "1.0", sha: str = A, *, days: int = 0, torch: str = "2.12.0") -> Record:
    seen = Seen(
        sha=sha, packages={"torch": torch}, read_by="pip freeze", released_at=DAY + timedelta(days=days)
    )
    return record_of(
        release(version, sha), seen, track="image", wanted=WANTED, source="here", flags=["major"], now=DAY
    )


@dataclass
class Fake:
    """A source whose releases are named, some of which cannot be looked at."""

    there: Sequence[Release]
    bad: Sequence[str] = ()
    torch: dict[str, str] = field(default_factory=dict)
    days: dict[str, int] = field(default_factory=dict)
    name: str = "here"

    def releases(self, only: str | None) -> list[Release]:
        return [one for one in self.there if only in {None, one.version}]

    def look(self, one: Release) -> Seen:
        if one.version == "interrupt":
            raise KeyboardInterrupt
        if one.version in self.bad:
            raise UntoldError("says nothing")
        torch = self.torch.get(one.version, "2.12.0")
        at = DAY + timedelta(days=self.days.get(one.version, 0))
        return Seen(sha=one.sha, packages={"torch": torch}, read_by="x", released_at=at, unread=("odd",))


def recorded(folder: Path, source: Fake, flags: Sequence[Flag] = ()) -> Recorded:
    return record_releases(
        folder,
        source,
        track="image",
        wanted=WANTED,
        only=None,
        flags=flags,
        clock=lambda: DAY,
        echo=lambda _: None,
    )


def test_a_record_has_the_tracked_ones_by_name_also_those_that_are_not_there() -> None:
    assert record().direct == {"torch": "2.12.0", "flash-attn": None}
    assert record().flags == ("major",)


def test_the_first_release_has_none_before_it() -> None:
    assert (linked(record(), []).previous, linked(record(), []).changes) == ("", ())


def test_a_release_is_compared_with_the_one_just_before_it() -> None:
    first, second, later = record("1.0"), record("1.1", B, days=1, torch="2.13.0"), record("3", B, days=9)
    one = linked(record("1.2", B, days=2, torch="2.14.0"), [later, second, first])
    assert one.previous == file_name("1.1", B)
    assert [(each.before, each.after) for each in one.changes] == [("2.13.0", "2.14.0")]


def test_a_dependency_that_is_tracked_from_now_on_is_compared_with_what_was_installed() -> None:
    before = record().model_copy(update={"direct": {}})
    assert linked(record("1.1", B, days=1), [before]).changes == ()


@pytest.mark.parametrize(
    ("one", "new", "said"),
    [
        (release(), False, []),
        (release("2.0"), True, []),
        (release(sha=B), True, [f"1.0 is another one now: {A[:12]} is recorded, {B[:12]} is there"]),
        (release(sha=B, also=frozenset({A, B})), False, []),
        (release(sha=""), False, []),
        (release(yanked="broken"), False, []),
        (release("2.0", yanked="broken"), True, []),
    ],
)
def test_what_the_ledger_has_not_is_new(one: Release, new: bool, said: list[str]) -> None:
    found, remarks = new_releases([one], [record()])
    assert (found, remarks) == ([one] if new else [], said)


def test_what_is_said_of_a_release_later_is_told_once() -> None:
    about: dict[str, Any] = {"at": DAY, "version": "1.0", "sha": A}
    records = [record()]
    events: list[Event] = []
    steps: list[tuple[list[Release], list[Flag], list[Event]]] = [
        ([release()], ["major"], []),
        ([release(yanked="broken\n\x1b[31m")], [], [TakenBack(text="broken ", **about)]),
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
        found = told_since(releases, as_told(records, events), flags, DAY)
        assert [one.model_dump() | {"text": ""} for one in found] == [
            one.model_dump() | {"text": ""} for one in wanted
        ]
        events += found
    [now] = as_told(records, events)
    assert (now.yanked, now.flags) == (None, ("major", "performance"))


def test_what_is_said_of_a_release_later_is_an_event_and_the_record_stays(tmp_path: Path) -> None:
    folder = tmp_path / "image"
    recorded(folder, Fake([release("1.0")]))
    [before] = read_records(folder)
    found = recorded(folder, Fake([release("1.0", yanked="broken")]), flags=["major"])
    assert found.remarks == (
        "1.0 was taken back since it was recorded: broken", "1.0 is flagged major from now on",
    )  # fmt: skip
    assert (found.known, read_records(folder)) == (1, [before])
    assert [one.kind for one in read_events(folder)] == ["taken-back", "flagged"]
    again = recorded(folder, Fake([release("1.0", yanked="broken")]), flags=["major"])
    assert again.remarks == ()
    assert recorded(folder, Fake([release("1.0")])).remarks == ("1.0 was taken back, and is offered again",)


def test_a_tag_that_moves_back_is_what_was_recorded() -> None:
    assert new_releases([release(sha=A)], [record(), record(sha=B, days=1)]) == ([], [])


def test_the_oldest_is_written_first_whatever_the_source_says_first(tmp_path: Path) -> None:
    folder = tmp_path / "image"
    source = Fake([release("2.0", B), release("1.0", A)], torch={"2.0": "2.13.0"}, days={"2.0": 1})
    found = recorded(folder, source)
    assert [one.version for one in found.written] == ["1.0", "2.0"]
    assert read_records(folder)[1].previous == file_name("1.0", A)
    assert found.remarks == ("2.0: names no package: odd", "1.0: names no package: odd")


def test_a_release_that_cannot_be_looked_at_holds_up_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "image"
    found = recorded(folder, Fake([release("1.0"), release("2.0", B)], bad=["1.0"]))
    assert [(one.version, error.what) for one, error in found.failed] == [("1.0", "says nothing")]
    assert [one.version for one in read_records(folder)] == ["2.0"]
    again = recorded(folder, Fake([release("1.0"), release("2.0", B)]))
    assert ([one.version for one in again.written], again.known) == (["1.0"], 1)


def test_what_was_looked_at_is_kept_when_somebody_interrupts(tmp_path: Path) -> None:
    folder = tmp_path / "image"
    with pytest.raises(KeyboardInterrupt):
        recorded(folder, Fake([release("1.0"), release("interrupt", B)]))
    assert [one.version for one in read_records(folder)] == ["1.0"]


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["1.0", "1.1", "latest"])), unique=True))
def test_in_any_order_each_release_follows_the_last_one_before_it(told: list[tuple[int, str]]) -> None:
    records: list[Record] = []
    for number, (days, version) in enumerate(told):
        records.append(linked(record(version, f"{number:064x}", days=days), records))
        earlier = [one for one in records if in_order(one) < in_order(records[-1])]
        wanted = max(earlier, key=in_order, default=None)
        assert records[-1].previous == (file_name(wanted.version, wanted.sha) if wanted else "")
