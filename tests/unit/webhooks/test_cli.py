from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ci.cli.app import run

FILE = Path(__file__).parent.parent.parent.parent / "jenkins" / "webhooks.yaml"


@pytest.mark.parametrize(("verb", "module"), [("check", "hub"), ("apply", "hub"), ("poll", "polling")])
def test_a_library_that_is_not_installed_is_told_with_its_extra(
    verb: str, module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, f"ci.webhooks.{module}", None)
    assert run(["webhooks", verb, str(FILE)]) == 2
    said = capsys.readouterr().err
    assert "webhooks want a library that is not installed" in said
    assert "pip install 'spyre-ci[github]'" in said
