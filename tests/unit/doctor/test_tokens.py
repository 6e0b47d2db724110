"""Tokens are there or not; nothing else of them is ever said, wherever they come from."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ci.doctor.finding import Level
from ci.doctor.tokens import TokenFacts, expiry_of, judge_tokens, look_tokens

from .conftest import NOW, MakeWorld

SERVER = {"report__endpoint": "https://hud.example.org"}
ONE = TokenFacts(variable="SPYRE_CI_HUD_TOKEN", purpose="to report", wanted="always", state="there")


def expired() -> str:
    row = base64.urlsafe_b64encode(json.dumps({"exp": NOW - 60}).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJub25lIn0.{row}.c2ln"


def test_on_a_laptop_none_is_wanted(make_world: MakeWorld) -> None:
    assert [one.said for one in look_tokens(make_world())] == ["none is wanted, none is there"]


def test_an_endpoint_wants_a_token(make_world: MakeWorld) -> None:
    (found,) = look_tokens(make_world(**SERVER))
    assert found.level is Level.FAULT
    assert found.said == "SPYRE_CI_HUD_TOKEN, to report to report.endpoint: missing"
    assert found.remedy == "set SPYRE_CI_HUD_TOKEN"


def test_a_token_of_the_environment_or_of_a_file_will_do(make_world: MakeWorld, tmp_path: Path) -> None:
    (found,) = look_tokens(make_world({"SPYRE_CI_HUD_TOKEN": "s3cret"}, **SERVER))
    assert (found.level, "s3cret" in found.said) == (Level.OK, False)
    file = tmp_path / "t"
    file.write_text("s3cret\n")
    file.chmod(0o600)
    (found,) = look_tokens(make_world(**SERVER, report__token_file=file))
    assert found.said == f"SPYRE_CI_HUD_TOKEN, to report to report.endpoint: there (of {file})"
    file.chmod(0o644)
    (found,) = look_tokens(make_world(**SERVER, report__token_file=file))
    assert (found.level, found.remedy) == (Level.WARNING, f"chmod 600 -- {file}")


@pytest.mark.parametrize(
    ("environ", "flags", "level", "words"),
    [
        ({"SPYRE_CI_HUD_TOKEN": "two words"}, SERVER, Level.FAULT, "cannot be used"),
        ({"SPYRE_CI_HUD_TOKEN": expired()}, SERVER, Level.FAULT, "it expired at 2026-"),
        ({}, SERVER | {"report__token_file": "gone"}, Level.FAULT, "is not there"),
        ({}, {"report__dispatch__repository": "a/b"}, Level.WARNING, "SPYRE_CI_GITHUB_TOKEN"),
        ({"SPYRE_CI_INDEX_TOKEN": "x"}, {}, Level.OK, "SPYRE_CI_INDEX_TOKEN, to publish packages: there"),
        (
            {"ACTIONS_ID_TOKEN_REQUEST_URL": "https://x", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "y"},
            SERVER,
            Level.OK,
            "GitHub mints one",
        ),
    ],
)
def test_what_is_wrong_with_a_token_is_said(
    make_world: MakeWorld, environ: dict[str, str], flags: dict[str, object], level: Level, words: str
) -> None:
    (found,) = look_tokens(make_world(environ, **flags))
    assert found.level is level, found
    assert words in found.said


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=6, max_size=200))
def test_no_part_of_a_token_is_said(make_world: MakeWorld, secret: str) -> None:
    secret = f"q7{secret}"
    said = [look_tokens(make_world(environ, **SERVER)) for environ in ({}, {"SPYRE_CI_HUD_TOKEN": secret})]
    without, with_it = ("\n".join(f"{one.said}{one.remedy}" for one in each) for each in said)
    assert secret not in with_it
    assert "q7" not in with_it
    assert "missing" in without


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
