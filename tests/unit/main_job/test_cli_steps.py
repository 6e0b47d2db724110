"""`spyre-ci run --shard` takes what `spyre-ci matrix` writes, and refuses the rest before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.cli.app import run
from test_selection.plan import Group, Plan, Shard, fingerprint, write_plan


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "--shard: 'x' is not a list of shards"),
        ("1-0", "--shard: '1-0' is not a list of shards"),
        ("", "--shard: '' is not a list of shards"),
        ("0-2", "there is no shard 2\n  remedy: the plan's shards are 0 to 1"),
        ("0-999999999", "there is no shard 999999999"),
    ],
)
def test_shards_that_are_none_are_refused(
    tmp_path: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shards = tuple(
        Shard(index=number, expected_s=1.0, groups=(Group(file="a.py", ids=(f"a.py::{number}",)),))
        for number in range(2)
    )
    plan = Plan(fingerprint=fingerprint(shards), bound_s=1.0, makespan_s=1.0, binds="balance", shards=shards)
    write_plan(tmp_path / "plan.json", plan)
    assert run(["run", "--run-dir", str(tmp_path), "--shard", text]) == 2
    assert message in capsys.readouterr().err
