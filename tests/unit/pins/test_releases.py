from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.pins.events import Event
from ci.pins.record import Record
from ci.pins.releases import Pinned, Releases, same_sha, same_version
from ci.pins.words import listed, named
from tests.pin_tracks import asked, decided, on, pinned, release, sha, went


def newest(records: list[Record], version: str, build: int = 0) -> str | None:
    pin = Pinned(version=version, sha=sha(version, build), since=on(0))
    found = Releases.of(records).newer(pin)
    return found[-1].version if found else None


def test_a_late_mend_of_an_old_line_is_not_the_newest() -> None:
    records = [release("2.12.0", 0), release("2.13.0", 10), release("2.12.1", 20)]
    assert newest(records, "2.12.0") == "2.13.0"
    assert newest(records, "2.13.0") is None


def test_words_that_are_no_versions_stand_by_day() -> None:
    records = [release("nightly-b", 0), release("nightly-a", 10)]
    assert newest(records, "nightly-b") == "nightly-a"
    assert newest(records, "nightly-a") is None
    assert went(decided(records, [], 20)) == "upgrade nightly-a"
    assert newest([*records, release("2.0", 5)], "nightly-a") == "2.0"


def test_a_tag_that_is_no_version_follows_none_and_leaves_the_others_in_their_order() -> None:
    records = [
        release("2.10.0", 0), release("2.11.0", 1), release("2.9.0", 2), release("latest", 30, "major"),
        release("2.10.1", 40),
    ]  # fmt: skip
    assert newest(records, "2.9.0") == newest(records, "2.10.0") == "2.11.0"
    assert newest(records, "2.11.0") is None
    assert went(decided(records, [], 50)) == "upgrade 2.11.0"
    events: list[Event] = [pinned("2.11.0", 1)]
    assert went(decided(records, events, 41)) == "none"
    assert went(decided(records, [*events, asked(1, "major", 41, "latest")], 41)) == "wait"
    assert went(decided(records, [*events, asked(1, "bug", 41, "latest")], 41)) == "upgrade latest"


def test_who_was_at_a_word_once_is_led_on_by_a_flag() -> None:
    records = [release("2.11.0", 0), release("latest", 30), release("2.12.0", 40, "major")]
    events: list[Event] = [pinned("latest", 30), pinned("2.11.0", 35)]
    assert went(decided(records, events, 41)) == "upgrade 2.12.0"


def test_what_stands_behind_a_dash_is_not_compared() -> None:
    records = [release("2.10-ubi9", 0), release("2.13-ubi9", 1), release("2.9-ubi9", 2)]
    assert newest(records, "2.9-ubi9") == "2.13-ubi9"
    assert newest(records, "2.13-ubi9") is None
    assert not same_version("2.13-ubi9", "2.13")


def test_a_pre_release_follows_only_a_pre_release() -> None:
    records = [release("2.12.0", 0), release("2.13.0rc1", 10), release("2.13.0rc2", 11)]
    assert newest(records, "2.12.0") is None
    assert newest(records, "2.13.0rc1") == "2.13.0rc2"
    assert went(decided(records[1:], [], 20)) == "upgrade 2.13.0rc2"
    assert went(decided(records, [], 20)) == "upgrade 2.12.0"


def test_a_pre_release_that_is_named_is_taken() -> None:
    records = [release("2.12.0", 0), release("2.13.0rc1", 10)]
    events: list[Event] = [pinned("2.12.0", 0), asked(1, "major", 11, "2.13.0rc1")]
    assert went(decided(records, events, 12)) == "upgrade 2.13.0rc1"


def test_a_build_of_the_same_version_is_newer_by_its_day() -> None:
    records = [release("2.12.0", 0), release("2.12.0", 10, build=1)]
    assert newest(records, "2.12.0") == "2.12.0"
    assert newest(records, "2.12.0", build=1) is None


def test_a_build_that_nobody_has_recorded_stands_where_its_version_does() -> None:
    records = [release("2.12.0", 0), release("2.12.0", 10, build=1), release("2.13.0", 20)]
    assert newest(records[:2], "2.12.0", build=9) is None
    assert newest(records, "2.12.0", build=9) == "2.13.0"


def test_a_version_that_nobody_has_recorded_stands_between_the_others() -> None:
    records = [release("2.11.0", 50), release("2.13.0", 60)]
    assert newest(records, "2.12.0") == "2.13.0"
    assert newest(records, "2.14.0") is None
    assert newest([release("a", -1), release("b", 1)], "c") == "b"
    assert newest([release("2.0", 1)], "odd") == "2.0"


@pytest.mark.parametrize(
    ("version", "build", "found"),
    [
        ("2.12", None, "2.12.0"),
        ("v2.12.0", 0, "2.12.0"),
        ("2.12.0", 5, None),
        (None, 0, "2.12.0"),
        (None, None, None),
    ],
)
def test_a_release_is_found_by_what_it_is_called(
    version: str | None, build: int | None, found: str | None
) -> None:
    record = Releases.of([release("2.12.0", 0)]).named(version, "" if build is None else sha("2.12.0", build))
    assert (record.version if record else None) == found


def test_versions_are_one_however_they_are_written() -> None:
    assert same_version("2.13", "v2.13.0")
    assert same_version("nightly", "nightly")
    assert not same_version("nightly", "nightly-1")
    assert not same_version("2.13", "nightly")


def test_shas_are_one_where_one_is_cut_short_but_not_too_short() -> None:
    whole = sha("2.12.0")
    assert same_sha(f"sha256:{whole}", whole[:12].upper())
    assert not same_sha(whole, whole[:11])
    assert not same_sha(whole, "")
    assert not same_sha("", "")


@given(st.permutations([release("1.0", 3), release("1.1", 1), release("1.1", 2, build=1), release("2.0", 0)]))
def test_the_order_of_records_is_no_matter(records: list[Record]) -> None:
    assert Releases.of(records) == Releases.of(sorted(records, key=lambda one: one.sha))


@given(st.text())
def test_what_is_named_stays_in_its_backticks(text: str) -> None:
    said = named(text)
    assert said[0] == said[-1] == "`"
    assert not set(said[1:-1]) & set("`\n\r")


def test_lists_for_people() -> None:
    assert [listed("a"), listed("ab"), listed("abc"), listed("")] == ["a", "a and b", "a, b and c", ""]
