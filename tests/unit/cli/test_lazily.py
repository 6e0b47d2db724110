"""Verbs are imported when they are called, and named by what they say of themselves."""

from __future__ import annotations

from typing import Any

import pytest
import typer

from ci.cli import lazily
from ci.cli.app import app
from ci.cli.verbs import VERBS


def test_a_verb_is_named_by_the_first_line_of_its_own_help() -> None:
    commands: Any = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # a group
    for name, verb in VERBS.items():
        assert " ".join(commands[name].help.split()).startswith(verb.help), name


def test_the_list_of_verbs_imports_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(name: str, verb: object) -> None:
        pytest.fail(f"{name} was imported: {verb}")

    monkeypatch.setattr(lazily, "_made", refuse)
    with pytest.raises(SystemExit) as ended:
        app(["--help"])
    assert ended.value.code == 0
    assert "forecast" in capsys.readouterr().out
