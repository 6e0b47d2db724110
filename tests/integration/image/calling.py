"""Calling `spyre-ci` as a user does, with a stack, a registry and a package index of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.calls import Said

from .conftest import World

ROOT = Path(__file__).parent.parent.parent.parent


def spyre_ci(world: World, *words: str, **environ: str) -> Said:
    given = {
        "SPYRE_CI__IMAGE__STACK": str(world.folder / "stack.yaml"),
        "SPYRE_CI__IMAGE__REPOSITORY": f"{world.registry}/spyre/runtime-{world.run}",
        # The engine of tests has no network of its own.
        "SPYRE_CI__IMAGE__NETWORK": "host",
        "PIP_INDEX_URL": f"{world.index}/",
        "PIP_TRUSTED_HOST": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "ci.cli", *words],
        cwd=world.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **given, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return Said(code=done.returncode, out=done.stdout, err=done.stderr)


def made(result: Said) -> dict[str, Any]:
    assert result.code == 0, result.output
    told: dict[str, Any] = json.loads(result.out)
    return told
