"""Tokens are set or not; nothing else of them is ever shown, wherever they come from."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ci.doctor.tokens import check_tokens, expiry_of

from .conftest import NOW, MakeMachine, short

SERVER = {"report__endpoint": "https://hud.example.org"}
HUD = "SPYRE_CI_HUD_TOKEN, to report to report.endpoint"
INDEX = {
    f"package__indexes__stage__{key}": value
    for key, value in {"upload": "https://i/up", "simple": "https://i/simple", "token_file": "gone"}.items()
}
MINTS = {"ACTIONS_ID_TOKEN_REQUEST_URL": "https://x", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "y"}


def jwt(payload: object) -> str:
    middle = base64.urlsafe_b64encode(json.dumps(payload).encode()).decode().rstrip("=")
    return f"eyJhbGciOiJub25lIn0.{middle}.c2ln"


@pytest.mark.parametrize(
    ("environ", "flags", "level", "words"),
    [
        ({}, {}, "ok", "not needed, and none is set"),
        ({}, SERVER, "fault", f"{HUD}: missing"),
        ({"SPYRE_CI_HUD_TOKEN": "s3cret"}, SERVER, "ok", f"{HUD}: set"),
        (
            {"SPYRE_CI_HUD_TOKEN": "two words"},
            SERVER,
            "fault",
            f"{HUD}: not usable: is empty, or contains blanks",
        ),
        ({"SPYRE_CI_HUD_TOKEN": jwt({"exp": NOW - 60})}, SERVER, "fault", f"{HUD}: expired at 2026-"),
        ({"SPYRE_CI_HUD_TOKEN": jwt({"exp": NOW + 60})}, SERVER, "ok", f"{HUD}: set, until 2026-"),
        ({"SPYRE_CI_HUD_TOKEN": jwt({"exp": 1e300})}, SERVER, "ok", f"{HUD}: set"),
        ({"SPYRE_CI_GITHUB_TOKEN": jwt({"exp": 1})}, {}, "warning", "statuses: expired at 1970-"),
        ({}, SERVER | {"report__token_file": "gone"}, "fault", f"{HUD}: missing, its file "),
        ({}, {"report__token_file": "gone"}, "warning", f"{HUD}: missing, its file "),
        (
            {},
            {"report__dispatch__repository": "a/b"},
            "warning",
            "SPYRE_CI_GITHUB_TOKEN, for `spyre-ci hud send`",
        ),
        ({"SPYRE_CI_INDEX_TOKEN": "x"}, {}, "ok", "SPYRE_CI_INDEX_TOKEN, to publish packages: set"),
        ({}, INDEX, "warning", "SPYRE_CI_INDEX_TOKEN, to publish to stage: missing, its file "),
        (MINTS, SERVER, "ok", f"{HUD}: GitHub issues one for each report"),
    ],
)
def test_what_a_token_lacks_is_said(
    make_machine: MakeMachine, environ: dict[str, str], flags: dict[str, Any], level: str, words: str
) -> None:
    (found,) = check_tokens(make_machine(environ, **flags))
    assert (str(found.level), found.message.find(words) >= 0) == (level, True), found
    assert "s3cret" not in found.message


def test_a_file_of_a_token_is_its_owners_alone(make_machine: MakeMachine, tmp_path: Path) -> None:
    file = tmp_path / "my t"
    file.write_text("s3cret\n")
    file.chmod(0o600)
    machine = make_machine(**SERVER, report__token_file=file)
    assert short([*check_tokens(machine)]) == [("ok", f"{HUD}: set in {file}")]
    file.chmod(0o644)
    (found,) = check_tokens(machine)
    assert (str(found.level), found.remedy) == ("warning", f"chmod 600 -- '{file}'")
    file.write_text("two words")
    (found,) = check_tokens(machine)
    assert found.remedy == f"{file}: put the bare token there, on one line"
    (found,) = check_tokens(make_machine({"SPYRE_CI_HUD_TOKEN": "two words"}, **SERVER))
    assert found.remedy == "SPYRE_CI_HUD_TOKEN: put the bare token there, on one line"
    (found,) = check_tokens(make_machine(**SERVER))
    assert found.remedy == "set SPYRE_CI_HUD_TOKEN"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=6, max_size=200))
def test_no_part_of_a_token_is_shown(make_machine: MakeMachine, secret: str) -> None:
    found = [*check_tokens(make_machine({"SPYRE_CI_HUD_TOKEN": f"q7{secret}"}, **SERVER))]
    assert found
    assert "q7" not in "".join(f"{one.message}{one.remedy}" for one in found)


@given(st.text())
def test_only_a_token_that_says_so_expires(token: str) -> None:
    assert expiry_of(token) is None or isinstance(expiry_of(token), float)
    for one in ("plain", "a.b.c", "..", jwt([1]), jwt({"exp": "soon"}), jwt({}), jwt({"exp": None})):
        assert expiry_of(one) is None
