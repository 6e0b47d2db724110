from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ci.core.errors import MissingInputError, SettingsError
from ci.hud.token import embedded_token, find_token


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-file\n")
    assert find_token({"SPYRE_CI_HUD_TOKEN": " from-env\n"}, file) == "from-env"
    assert find_token({"SPYRE_CI_HUD_TOKEN": " "}, file) == "from-file"
    assert find_token({}, file) == "from-file"


def test_no_token_at_all_is_said_with_the_remedy() -> None:
    with pytest.raises(SettingsError, match="there is no token") as caught:
        find_token({}, None)
    for way in ("SPYRE_CI_HUD_TOKEN", "report.token_file", "id-token: write"):
        assert way in str(caught.value.remedy)


def test_a_token_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError) as caught:
        find_token({}, tmp_path / "gone")
    assert caught.value.where == str(tmp_path / "gone")


def test_a_token_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read") as caught:
        find_token({}, tmp_path)
    assert caught.value.where == str(tmp_path)


@pytest.mark.parametrize("text", ["", "two words", "line\nbreak", "käse"])
def test_a_token_no_header_can_carry_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(SettingsError, match="is empty, or contains blanks") as caught:
        find_token({}, file)
    assert not text or text not in str(caught.value)


def test_the_embedded_token_is_made_once_and_private(tmp_path: Path) -> None:
    said: list[str] = []
    token = embedded_token(tmp_path / "state", warn=said.append)
    assert len(token) >= 32
    assert embedded_token(tmp_path / "state", warn=said.append) == token
    assert stat.S_IMODE((tmp_path / "state" / "hud-token").stat().st_mode) == 0o600
    assert said == []
    assert embedded_token(tmp_path / "other", warn=said.append) != token


def test_wider_permissions_are_mended_and_said(tmp_path: Path) -> None:
    said: list[str] = []
    token = embedded_token(tmp_path, warn=said.append)
    (tmp_path / "hud-token").chmod(0o644)
    assert embedded_token(tmp_path, warn=said.append) == token
    assert stat.S_IMODE((tmp_path / "hud-token").stat().st_mode) == 0o600
    (line,) = said
    assert "others could read the HUD token (mode 0644)" in line
    assert token not in line


def test_a_token_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded_token(tmp_path, warn=print)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(SettingsError, match="belongs to another user"):
        embedded_token(tmp_path, warn=print)
