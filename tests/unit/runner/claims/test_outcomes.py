"""Which pieces are done: those all of whose tests have an outcome in a journal that is on the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.core.errors import FileSystemError
from ci.record.events import parse
from ci.record.journal import JournalWriter
from ci.runner.claims.joining import note_name, read_names
from ci.runner.claims.outcomes import Outcomes


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def write(path: Path, *events: tuple[str, dict[str, Any]]) -> None:
    journal = JournalWriter(path, lambda: 1.0)
    for kind, content in events:
        journal.write(parse({"e": kind, **content}))
    journal.close()


def end(name: str) -> tuple[str, dict[str, Any]]:
    return "end", {"id": name, "outcome": "passed"}


def test_a_piece_is_done_with_the_last_outcome_of_its_tests_whichever_journals_tell_of_them(
    tmp_path: Path, clock: Clock
) -> None:
    ledger, first, second = Outcomes(clock), tmp_path / "0-1.jsonl", tmp_path / "0-2.jsonl"
    ledger.claimed((0, 1), ["a", "b", "c"])
    write(first, end("a"), ("start", {"id": "b"}), ("worker_lost", {"id": "b"}), end("unknown"))
    write(second, ("crash", {"id": "c", "cause": "signal"}))
    for path in (first, second):
        ledger.wrote(path)
    assert ledger.settled(now=True) == []
    write(second, end("b"), end("b"))
    assert ledger.settled(now=True) == []  # nobody said that there was more to read
    ledger.wrote(second)
    assert ledger.settled(now=True) == [(0, 1)]
    assert ledger.settled(now=True) == []


def test_what_was_given_up_or_cut_off_or_damaged_is_no_outcome(tmp_path: Path, clock: Clock) -> None:
    ledger, path = Outcomes(clock), tmp_path / "0-1.jsonl"
    ledger.claimed((0, 1), ["a", "b", "c"])
    write(path, ("not_run", {"ids": ["a"], "message": '"e":"end"'}), end("b"))
    path.write_bytes(path.read_bytes().replace(b"passed", b"failed") + b'{"t":1,"e":"end","id":"c"')
    ledger.wrote(path)
    assert ledger.settled(now=True) == []
    write(path, end("a"), end("b"), end("c"))
    ledger.wrote(path)
    assert ledger.settled(now=True) == [(0, 1)]


def test_journals_are_synced_once_a_second_at_most_and_before_anything_is_told(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr("ci.runner.claims.outcomes.bring_to_disk", synced.append)
    ledger, path = Outcomes(clock), tmp_path / "0-1.jsonl"
    told = []
    for number in range(20):
        clock.now = number / 10
        ledger.claimed((0, number), [str(number)])
        write(path, end(str(number)))
        ledger.wrote(path)
        told.append(len(ledger.settled()))
        assert bool(told[-1]) == (len(synced) == len([one for one in told if one]) and number % 10 == 0)
    assert (told[0], told[10], sum(told), len(synced)) == (1, 10, 11, 2)


@pytest.mark.parametrize("broken", ["gone", "refused"])
def test_what_is_not_on_the_disk_is_not_told(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    ledger, path = Outcomes(clock), tmp_path / "0-1.jsonl"
    ledger.claimed((0, 1), ["a"])
    ledger.wrote(path)
    with monkeypatch.context() as patch:
        if broken == "refused":
            write(path, end("a"))

            def refuse(_: int) -> None:
                raise OSError(5, "Input/output error")

            patch.setattr("ci.runner.claims.outcomes.bring_to_disk", refuse)
        assert ledger.settled(now=True) == []
        assert not ledger.current
    if broken == "gone":
        write(path, end("a"))
    assert ledger.settled(now=True) == [(0, 1)]
    assert ledger.current


def test_a_journal_that_was_cut_is_read_anew(tmp_path: Path, clock: Clock) -> None:
    ledger, path = Outcomes(clock), tmp_path / "0-1.jsonl"
    ledger.claimed((0, 1), ["a", "b"])
    write(path, end("x"), end("a"))
    ledger.wrote(path)
    assert ledger.settled(now=True) == []
    path.write_bytes(b"")
    write(path, end("b"))
    ledger.wrote(path)
    assert ledger.settled(now=True) == [(0, 1)]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=20))
def test_in_whatever_order_outcomes_come_a_piece_is_done_once_and_not_before(
    tmp_path_factory: pytest.TempPathFactory, told: list[tuple[str, bool]]
) -> None:
    path = tmp_path_factory.mktemp("journal") / "0-1.jsonl"
    ledger = Outcomes(Clock())
    pieces = {(0, 0): {"a", "b"}, (1, 0): {"c"}, (2, 7): {"d", "e", "f"}}
    for key, ids in pieces.items():
        ledger.claimed(key, ids)
    done: list[tuple[int, int]] = []
    seen: set[str] = set()
    for name, outcome in told:
        write(path, end(name) if outcome else ("start", {"id": name}))
        ledger.wrote(path)
        done += ledger.settled(now=True)
        seen |= {name} if outcome else set()
        assert sorted(done) == sorted(key for key, ids in pieces.items() if ids <= seen)


def test_names_are_kept_and_what_is_cut_or_strange_names_nobody(tmp_path: Path) -> None:
    path = tmp_path / "run" / "share-names.jsonl"
    assert read_names(path) == frozenset()
    note_name(path, "a")
    path.write_bytes(path.read_bytes() + b'[1]\n{"name": 3}\n\xff\n' + b"[" * 100_000 + b'\n{"na')
    note_name(path, "b")
    assert read_names(path) == {"a", "b"}


def test_a_name_that_cannot_be_noted_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "names").mkdir()
    with pytest.raises(FileSystemError, match="cannot be noted: Is a directory") as told:
        note_name(tmp_path / "names", "a")
    assert "space and the rights" in str(told.value.remedy)
