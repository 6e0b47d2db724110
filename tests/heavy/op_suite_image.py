"""An image with PyTorch's real wheel and this project, as its own verb builds it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.engine import served

ROOT = Path(__file__).parent.parent.parent
TORCH = "2.13.0"


@contextmanager
def index(folder: Path) -> Iterator[str]:
    """A package index with this project's packages, PyTorch among them, as this machine gets them."""
    wanted = [f"{ROOT}[torch,s3]", f"torch=={TORCH}", "setuptools>=83", "wheel"]
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(folder), *wanted],
        check=True,
        timeout=900,
    )
    for path in list(folder.glob("*.whl")):
        below = folder / re.sub(r"[-_.]+", "-", path.name.partition("-")[0]).lower()
        below.mkdir(exist_ok=True)
        path.rename(below / path.name)
    with served(folder) as address:
        yield f"{address}/"


def requirements() -> list[str]:
    """What this project, PyTorch's tests of it and buckets need, as a stack file has it."""
    found = []
    for line in importlib.metadata.requires("spyre-ci") or ():
        name, _, marker = (part.strip() for part in line.partition(";"))
        if (not marker or re.fullmatch(r"extra == ['\"](torch|s3)['\"]", marker)) and not name.startswith(
            "torch=="
        ):
            found.append(name)
    return found


def build_image(index: str, folder: Path) -> str:
    """Build it; its name.

    Args:
        index: a package index.
        folder: takes its stack file.
    """
    stack = {
        "version": 1,
        "name": "op-suite",
        "base": {"image": os.environ["TEST_BASE_IMAGE"], "packages": ["python3-venv"]},
        "variants": {"pinned": {"version": TORCH}},
        "components": [
            {
                "name": "spyre-ci",
                "git": {"url": "https://example.com/x.git", "steps": ['pip wheel --no-deps -w "$WHEELS" .']},
                "requirements": requirements(),
            }
        ],
    }
    (folder / "stack.yaml").write_text(json.dumps(stack))
    environ = {
        "PYTHONPATH": str(ROOT),
        "PIP_INDEX_URL": index,
        "PIP_TRUSTED_HOST": "127.0.0.1",
        "SPYRE_CI__IMAGE__NETWORK": "host",
        "SPYRE_CI__IMAGE__STACK": "stack.yaml",
    }
    done = subprocess.run(
        [
            *(sys.executable, "-m", "ci.cli", "image", "build", "--json"),
            *("--with", f"spyre-ci={ROOT}"),
        ],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return str(json.loads(done.stdout)["image"])
