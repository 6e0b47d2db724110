from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from ci.core.errors import BadFileError, CommandError, MissingInputError
from ci.record.verdict import Verdict
from ci.reproduce.lookup import ROWS, _content, from_hud
from ci.reproduce.ref import HudPage
from test_selection.seeds import seed_of_test

PAGE = HudPage(base="http://h", number=7)
SHA = "0123456789abcdef0123456789abcdef01234567"
NAME = "a.py::T::x"


def run(**changes: Any) -> dict[str, Any]:
    environment = {"run": "ci", "provider": "github", "device": "spyre", "seed": 5, "pytorch": "2.13.0"}
    row = {"run_id": "9", "run_attempt": 2, "pytorch_head_sha": SHA, "environment": json.dumps(environment)}
    return {"run": {**row, **changes}, "details": {"run": "ci", "device": "spyre"}}


def row_of(name: str = NAME, **changes: Any) -> dict[str, Any]:
    row = {"test_id": name, "verdict": "failed", "cause": "", "attempts": 2}
    return {**row, "message": "attempt 1: failed: ValueError: a; attempt 2: failed: ValueError: b", **changes}


def hud(told: dict[str, Any], *tests: dict[str, Any]) -> Any:
    def get(path: str, values: Mapping[str, Any]) -> Any:
        if not path.endswith("/tests"):
            return told
        rows = [one for one in tests if values.get("file") in (None, one["test_id"].partition("::")[0])]
        return {"tests": rows[values.get("offset", 0) :][:ROWS]}

    return get


def test_what_a_hud_tells_of_a_test() -> None:
    found = from_hud(PAGE, NAME, hud(run(), row_of()))
    assert (found.ref, found.attempt, found.run_seed, found.own) == ("github-9.2", 2, 5, False)
    assert found.seed == seed_of_test(5, NAME, 2)
    assert found.end is not None
    assert (found.end.verdict, found.end.message) == (Verdict.FAILED, "ValueError: b")
    assert found.source == f"git+https://github.com/pytorch/pytorch@{SHA}"


def test_of_a_flaky_test_the_try_that_failed_is_meant() -> None:
    found = from_hud(PAGE, "::x", hud(run(), row_of(verdict="flaky", attempts=3)))
    assert (found.attempt, found.end and found.end.verdict) == (2, Verdict.FAILED)


def test_a_test_far_down_a_long_file_is_found() -> None:
    many = [row_of(f"a.py::T::x{number}") for number in range(ROWS + 5)]
    assert from_hud(PAGE, f"a.py::T::x{ROWS + 3}", hud(run(), *many)).id == f"a.py::T::x{ROWS + 3}"


def test_a_test_that_is_not_there_is_said_with_those_near_it() -> None:
    with pytest.raises(MissingInputError, match=r"near it: a\.py::T::x"):
        from_hud(PAGE, "a.py::T::y", hud(run(), row_of()))


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"run": None, "details": None},
        run(environment="{"),
        run(environment="[]"),
        run(run_attempt="x"),
        run(run_attempt=float("inf")),
        run(environment="[" * 100_000),
    ],
)
def test_what_is_no_hud_s_answer_is_said(told: dict[str, Any]) -> None:
    with pytest.raises(BadFileError, match="lacks what a run has"):
        from_hud(PAGE, NAME, hud(told, row_of()))


@pytest.mark.parametrize("seed", [-1, "7", 2**40, True, None])
def test_what_is_no_seed_is_none(seed: object) -> None:
    found = from_hud(PAGE, NAME, hud(run(environment=json.dumps({"seed": seed})), row_of()))
    assert found.run_seed is None


def test_what_a_hud_refuses_has_its_remedy() -> None:
    with pytest.raises(CommandError, match="SPYRE_CI_HUD_READ_TOKEN"):
        _content("http://h", 401, b"")
    with pytest.raises(MissingInputError, match="no such run"):
        _content("http://h", 404, b"")
    with pytest.raises(BadFileError, match="answered 302"):
        _content("http://h", 302, b"")
    with pytest.raises(BadFileError, match="is no JSON"):
        _content("http://h", 200, b"<html>")
    assert _content("http://h", 200, b"{}") == {}
