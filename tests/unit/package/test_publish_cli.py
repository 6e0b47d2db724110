"""What publishing prints, of names that come from files and indexes."""

from __future__ import annotations

import pytest

from ci.package.cli import _tell, say

BAD = "a\n::error::x\r\x1b[2J##[group]"


def test_a_line_for_people_commands_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"uploads {BAD}")
    assert capsys.readouterr().err == "uploads a\n| ::error::x\n# #[group]\n"


def test_nor_does_what_was_done(capsys: pytest.CaptureFixture[str]) -> None:
    done = {"project": "demo", "version": "1.0", "index": "stage", "files": [{"name": "##[x]"}]}
    _tell({**done, "state": {"absent": ["x"]}}, dry_run=True, as_json=False)
    _tell({**done, "state": {"absent": []}}, dry_run=False, as_json=False)
    assert (
        capsys.readouterr().out
        == "demo 1.0 would be published on stage: # #[x]\ndemo 1.0 is published on stage: # #[x]\n"
    )
