"""Tokens are there or not; nothing else of them is ever said."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.doctor.finding import Level
from ci.doctor.judge.tokens import TokenFacts, expiry_of, judge_tokens

ONE = TokenFacts(variable="SPYRE_CI_HUD_TOKEN", purpose="to report", wanted="always", state="there")
NOW = 1_785_000_000.0


def jwt(payload: object) -> str:
    middle = base64.urlsafe_b64encode(json.dumps(payload).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJub25lIn0.{middle}.c2ln"


def test_a_token_says_when_it_ends_only_where_it_is_one_that_can() -> None:
    assert expiry_of(jwt({"exp": 5})) == 5
    for token in ("plain", "a.b.c", "..", jwt([1]), jwt({"exp": "soon"}), jwt({}), jwt({"exp": None})):
        assert expiry_of(token) is None


@given(st.text())
def test_no_token_makes_it_fall_over(token: str) -> None:
    assert expiry_of(token) is None or isinstance(expiry_of(token), float)


@pytest.mark.parametrize(
    ("one", "level", "words"),
    [
        (ONE, Level.OK, "SPYRE_CI_HUD_TOKEN, to report: there"),
        (replace(ONE, expires=NOW + 1), Level.OK, "there, until 2026-"),
        (replace(ONE, expires=NOW), Level.FAULT, "it expired at 2026-"),
        (replace(ONE, expires=1e300), Level.OK, "until a time no calendar has"),
        (replace(ONE, expires=float("nan")), Level.OK, "until a time no calendar has"),
        (replace(ONE, expires=NOW, wanted="sometimes"), Level.WARNING, "it expired"),
        (replace(ONE, state="missing"), Level.FAULT, "missing"),
        (replace(ONE, state="missing", wanted="sometimes"), Level.WARNING, "missing"),
        (replace(ONE, state="no file", file="/t"), Level.FAULT, "its file /t is not there"),
        (replace(ONE, state="no file", file="/t", wanted="no"), Level.WARNING, "its file /t is not there"),
        (replace(ONE, state="unusable", why="holds blanks"), Level.FAULT, "cannot be used: holds blanks"),
        (replace(ONE, state="minted"), Level.OK, "GitHub mints one"),
        (replace(ONE, file="/t", from_file=True), Level.OK, "there (of /t)"),
    ],
)
def test_a_token_is_there_or_it_is_said(one: TokenFacts, level: Level, words: str) -> None:
    (found,) = judge_tokens([one], now=NOW)
    assert found.level is level
    assert words in found.said


def test_what_nobody_wants_is_not_told_as_missing() -> None:
    (found,) = judge_tokens([replace(ONE, wanted="no", state="missing")], now=NOW)
    assert (found.level, found.said) == (Level.OK, "none is wanted, none is there")
    assert judge_tokens([replace(ONE, wanted="no")], now=NOW)[0].said.endswith("there")


def test_a_file_that_others_can_read_is_a_warning() -> None:
    (found,) = judge_tokens([replace(ONE, file="/my t", from_file=True, open_to_others=True)], now=NOW)
    assert (found.level, found.remedy) == (Level.WARNING, "chmod 600 -- '/my t'")
