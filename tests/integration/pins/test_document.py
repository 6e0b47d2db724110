"""What docs/pins-verbs.md has run every day does so in a shell that ends with the first failure."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

TEXT = Path(__file__).parents[3].joinpath("docs", "pins-verbs.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("record", "apply", "code"), [(0, 0, 0), (3, 0, 3), (0, 1, 1), (3, 1, 1)])
def test_every_day_both_verbs_run_whatever_the_first_one_says(
    tmp_path: Path, record: int, apply: int, code: int
) -> None:
    [shown] = re.findall(r"```sh\n(code=0.*?)```", TEXT, re.DOTALL)
    verb = tmp_path / "spyre-ci"
    verb.write_text(
        f'#!/bin/sh\necho "$*" >> "$0.told"\n'
        f'case "$2" in record) exit {record};; apply) exit {apply};; esac\n'
    )
    verb.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-e", "-c", shown], check=False, timeout=60,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    told = (tmp_path / "spyre-ci.told").read_text().splitlines()
    assert (done.returncode, told) == (code, ["pins record --keep", "pins apply torch"])
