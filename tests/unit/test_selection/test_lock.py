"""The lock file comes back as it was written; a broken one, or one of other tests, is told."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from test_selection.errors import BadFileError, MissingInputError
from test_selection.lock import Lock, make_lock, mismatch, narrowed, read_lock, torch_pin, write_lock

from .any_tests import any_tests, make_test

TESTS = [make_test(file, template, op=template, dtype=file) for file in range(2) for template in range(3)]


def lock(**changes: Any) -> Lock:
    seconds = {test.id: 0.25 * number for number, test in enumerate(TESTS)}
    content = {
        "torch": "2.13.0+cpu",
        "device": "spyre",
        "tree": "pytorch",
        "scope": "v1",
        "must_run": [TESTS[4].id],
        "seconds": seconds,
        "history": {TESTS[2].id: 0.123456, TESTS[3].id: 0.0},
        "weighed": True,
    }
    return make_lock(TESTS, **{**content, **changes})


def rewrite(path: Path, change: Any) -> Path:
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    change(rows)
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_lock(tmp_path / "selection.lock.gz", lock())
    return tmp_path / "selection.lock.gz"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(any_tests(), st.booleans(), st.data())
def test_a_lock_comes_back_and_the_ladder_can_be_made_again_from_it(
    tmp_path: Path, tests: list[Any], weighed: bool, data: st.DataObject
) -> None:
    seconds = {test.id: data.draw(st.floats(0, 1e6)) for test in tests}
    history = {test.id: data.draw(st.floats(0, 1)) for test in tests[::2]}
    made = make_lock(
        tests, torch="2", device="cpu", scope="v", seconds=seconds, history=history, weighed=weighed
    )
    write_lock(tmp_path / "l.gz", made)
    read = read_lock(tmp_path / "l.gz")
    assert read == made
    again = make_lock(
        read.order.tests,
        torch="2",
        device="cpu",
        scope="v",
        seconds=dict(zip((test.id for test in read.order.tests), read.seconds, strict=True)),
        history=read.history,
        weighed=weighed,
    )
    assert again == made


def test_the_same_lock_gives_the_same_bytes(path: Path, tmp_path: Path) -> None:
    write_lock(tmp_path / "other.gz", read_lock(path))
    assert (tmp_path / "other.gz").read_bytes() == path.read_bytes()


def test_the_first_line_tells_what_it_is_of_and_when_the_cover_is_complete(path: Path) -> None:
    header, first, *_ = gzip.decompress(path.read_bytes()).decode().splitlines()
    assert json.loads(header) == {
        "schema": "spyre-ci/ladder/1",
        "torch": "2.13.0",
        "device": "spyre",
        "tests": "pytorch",
        "scope": "v1",
        "ties": "history, seconds, hash",
        "counts": {
            "tests": 6, "must-run": 1, "cover": 6,
            "files": 2, "ops": 3, "dtypes": 2, "templates": 6, "op-dtype pairs": 6,
        },
        "complete_at_percent": {
            "must-run": 0.01, "files": 16.67, "ops": 33.34, "dtypes": 16.67, "templates": 83.34,
            "op-dtype pairs": 83.34,
        },
    }  # fmt: skip
    assert json.loads(first) == {"id": TESTS[4].id, "seconds": 1.0}


def test_a_lock_made_for_one_run_does_not_depend_on_the_past() -> None:
    here, there = lock(weighed=False), lock(weighed=False, seconds={}, history={TESTS[0].id: 1.0})
    assert here.order == there.order
    assert here.seconds != there.seconds


def test_a_part_of_a_lock_keeps_its_must_run_tests_and_seconds() -> None:
    whole = lock()
    part = narrowed(whole, lambda tests: [test for test in tests if test.file == "test_1.py"])
    assert part.order.tests[0] == TESTS[4]
    assert part.order.must_run == 1
    assert len(part.order.tests) == len(part.seconds) == 3
    assert part.seconds[0] == 1.0


@pytest.mark.parametrize(
    ("change", "line", "said"),
    [
        (lambda rows: rows.append(rows[1]), 8, "is there twice"),
        (lambda rows: rows.pop(), 6, "5 tests, but the first line says 6"),
        (lambda rows: rows[3].pop("id"), 4, "key 'id' is missing or unknown"),
        (lambda rows: rows[3].update(id=7), 4, "id is 7, not text"),
        (lambda rows: rows[3].update(id="nothing"), 4, "'nothing' is not a test id"),
        (lambda rows: rows[3].update(id="a.py::t[x"), 4, "is not a test id"),
        (lambda rows: rows[3].update(seconds=-1), 4, "seconds is -1, not a number"),
        (lambda rows: rows[3].update(seconds=True), 4, "seconds is True, not a number"),
        (lambda rows: rows[3].update(seconds="1"), 4, "seconds is '1', not a number"),
        (lambda rows: rows[3].update(seconds=float("nan")), 4, "seconds is nan, not a number"),
        (lambda rows: rows[3].update(seconds=float("inf")), 4, "seconds is inf, not a number"),
        (lambda rows: rows[3].update(seconds=10**400), 4, "not a number"),
        (lambda rows: rows[3].update(failed=1.5), 4, "failed is 1.5, not a number from 0 to 1"),
        (lambda rows: rows.__setitem__(3, []), 4, "list indices"),
        (lambda rows: rows[0].pop("torch"), 1, "key 'torch' is missing or unknown"),
        (lambda rows: rows[0].pop("counts"), 1, "key 'counts' is missing or unknown"),
        (lambda rows: rows[0].update(counts=[]), 1, "list indices"),
        (lambda rows: rows[0]["counts"].update(cover=99), 1, "counts.cover is 99, not a whole number"),
        (lambda rows: rows[0]["counts"].update({"must-run": 1.5}), 1, "counts.must-run is 1.5"),
        (lambda rows: rows[0].update(ties="luck"), 1, "key 'luck' is missing or unknown"),
        (lambda rows: rows[0].update(ties=[]), 1, "unhashable"),
        (lambda rows: rows[0].update(schema="spyre-ci/ladder/2"), None, "schema is 'spyre-ci/ladder/2'"),
    ],
)
def test_a_broken_lock_is_refused_with_line_and_remedy(
    path: Path, change: Any, line: int | None, said: str
) -> None:
    with pytest.raises(BadFileError) as caught:
        read_lock(rewrite(path, change))
    assert said in caught.value.what
    assert caught.value.where == (f"{path}:{line}" if line else str(path))
    assert caught.value.remedy


def test_a_lock_that_is_cut_short_is_refused(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadFileError, match="cannot be read"):
        read_lock(path)


def test_an_empty_lock_and_none_at_all_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.gz").write_bytes(b"")
    with pytest.raises(BadFileError, match="is empty"):
        read_lock(tmp_path / "empty.gz")
    with pytest.raises(MissingInputError, match="there is no selection lock file"):
        read_lock(tmp_path / "none.gz")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"torch": "2.13.0+cu128"}, ""),
        ({"torch": "2.14.0"}, "torch 2.13.0, not 2.14.0"),
        ({"device": "cpu"}, "device spyre, not cpu"),
        ({"tree": "op-suite"}, "tests pytorch, not op-suite"),
        ({"device": "cpu", "tree": "op-suite"}, "device spyre, not cpu, tests pytorch, not op-suite"),
    ],
)
def test_a_lock_of_other_tests_is_told(changes: dict[str, str], said: str) -> None:
    wanted = {"torch": "2.13.0", "device": "spyre", "tree": "pytorch", **changes}
    assert mismatch(lock(), **wanted) == said


@pytest.mark.parametrize(
    ("version", "pin"),
    [
        ("2.13.0", "2.13.0"),
        ("2.13.0+cpu", "2.13.0"),
        ("2.13.0+cu128", "2.13.0"),
        ("2.13.0+cpu.cxx11.abi", "2.13.0"),
        ("2.14.0.dev20260101+rocm6.4", "2.14.0.dev20260101"),
        ("2.6.0a0+git1a2b3c4", "2.6.0a0+git1a2b3c4"),
        ("", ""),
    ],
)
def test_how_torch_was_built_is_no_part_of_its_pin(version: str, pin: str) -> None:
    assert torch_pin(version) == pin
