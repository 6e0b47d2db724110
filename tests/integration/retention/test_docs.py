"""docs/retention.md: its commands do as they are typed, its settings are settings, its table is the truth."""

from __future__ import annotations

import json
import re
import shlex
import time
from pathlib import Path
from typing import NoReturn

import pytest
import yaml

from ci.cli.app import run
from ci.config.model import SettingsModel
from ci.config.retention_model import Retention
from ci.core.errors import CommandError
from ci.retention.rules import KINDS
from tests.retention_world import make_run

ROOT = Path(__file__).parent.parent.parent.parent
TEXT = (ROOT / "docs" / "retention.md").read_text(encoding="utf-8")


def no_engine(*_: object) -> NoReturn:
    """Whatever images this machine has stay."""
    raise CommandError("no container engine answers")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ci.retention.prune.find_on_engine", no_engine)


def test_its_commands_do_as_they_are_typed() -> None:
    (block,) = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    for number in range(15):
        make_run(Path("runs"), f"r{number}", 20.0 * number, now=time.time())
    left = []
    for line in block.splitlines():
        assert run(shlex.split(line)[1:]) == 0, line
        left.append(len(list(Path("runs").iterdir())))
    # The first only looks; the second keeps ten; the third five.
    assert left == [15, 10, 5]


def test_its_settings_are_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    content = yaml.safe_load(block)
    content["retention"]["releases"] = [str(tmp_path)]
    assert SettingsModel.model_validate(content).retention.runs.keep_gib == 200
    Path("spyre-ci.yaml").write_text(yaml.safe_dump(content))
    assert run(["prune", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kinds"]["runs"]["keep_last"] == 20


def test_its_table_tells_each_kind_and_what_is_kept_by_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", TEXT, re.MULTILINE))
    assert tuple(rows) == KINDS
    model = Retention()
    for kind in KINDS[:6]:
        keep = getattr(model, kind)
        assert f"{keep.keep_days:g} days" in rows[kind]
        assert keep.keep_gib is None
        assert (f"newest {keep.keep_last} " in rows[kind]) == (keep.keep_last > 1), kind
        assert ("newest" in rows[kind]) == (keep.keep_last > 0), kind
    assert f"newest {model.store.keep_last} " in rows["store"]
