"""The record comes back as it was written, and a damaged one is told of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.bisect.answers import Said
from ci.bisect.belief import Tally
from ci.bisect.record import FILE, Record, Tried, as_json, read_record, write_record
from ci.core.errors import BadFileError, MissingInputError
from tests.unit.bisect.hands import QUESTION, record_of, shas

positions = st.integers(0, 4)
counts = st.builds(Tally, passed=st.integers(0, 9), failed=st.integers(0, 9))
records = st.builds(
    Record,
    question=st.just(QUESTION),
    commits=st.just(shas(5)),
    notes=st.lists(st.text()),
    history=st.dictionaries(positions, counts),
    rounds=st.lists(st.lists(positions)),
    open=st.booleans(),
    tries=st.lists(
        st.builds(
            Tried,
            round=st.integers(1, 9),
            position=positions,
            said=st.sampled_from(Said),
            message=st.text(),
            seconds=st.floats(0, 1e6),
            card=st.none() | st.text(),
            at=st.floats(0, 1e10),
        )
    ),
    barred=st.dictionaries(positions, st.text()),
    known_good=st.integers(-1, 3),
    seconds=st.just(1.5),
)


@given(records)
def test_it_comes_back(record: Record) -> None:
    import tempfile  # noqa: PLC0415  # a folder an example

    with tempfile.TemporaryDirectory() as folder:
        write_record(Path(folder), record)
        assert read_record(Path(folder)) == record


@pytest.mark.parametrize(
    "damage",
    [
        {"commits": ["a"]}, {"commits": None}, {"tries": [{"position": 1}]}, {"known_good": 99},
        {"barred": {"77": "x"}}, {"history": {"x": {}}}, {"rounds": [[-1]]}, {"test": 3},
        {"schema": "other/1"},
    ],
)  # fmt: skip
def test_a_damaged_one_is_told_of(tmp_path: Path, damage: dict[str, Any]) -> None:
    write_record(tmp_path, record_of(4))
    content = json.loads((tmp_path / FILE).read_text(encoding="utf-8"))
    (tmp_path / FILE).write_text(json.dumps(content | damage), encoding="utf-8")
    with pytest.raises(BadFileError) as caught:
        read_record(tmp_path)
    assert caught.value.where == str(tmp_path / FILE)
    assert caught.value.remedy


def test_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError):
        read_record(tmp_path)


def test_what_is_believed_is_what_was_seen() -> None:
    record = record_of(4)
    record.history[4] = Tally(failed=3)
    record.rounds = [[4], [2]]
    record.tries = [
        Tried(round=1, position=4, said=Said.FAILED), Tried(round=2, position=2, said=Said.PASSED),
        Tried(round=2, position=2, said=Said.FAULT),
    ]  # fmt: skip
    assert record.belief().tallies == {4: Tally(failed=4), 2: Tally(passed=1)}
    assert record.visit(2) == record.seen(2) == Tally(passed=1)
    assert record.visit(4) == Tally()
    assert record.tried == {2, 4}
    assert (record.steps, record.last) == (2, 4)
    assert "schema" not in as_json(record)
