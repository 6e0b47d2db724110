"""A project for the tests of workflows: pure Python, a few tests, settings that keep all of it small."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "demo"
version = "1.0"
description = "Made for tests"
readme = "README.md"
requires-python = ">=3.11"
license = "Apache-2.0"
license-files = ["LICENSE"]

[tool.setuptools]
packages = ["demo"]
"""
MODULE = '"""A package."""\n\nANSWER = 42\n'
UNIT = """\
from demo import ANSWER


def test_the_answer() -> None:
    assert ANSWER == 42
"""
ON_CARD = """\
import torch


def test_a_sum_on_the_card() -> None:
    two = torch.ones(1, device="spyre") + 1
    assert two.cpu().item() == 2
"""
RUNNER = ["ubuntu-latest"]
SETTINGS: Mapping[str, Any] = {
    "stage": 1,
    "stages": {
        0: {"percent": 0, "cards": 1, "cadence": "none"},
        **{number: {"percent": 0.2, "cards": 2, "cadence": "nightly"} for number in (1, 2, 3, 4)},
        5: {"percent": 0.2, "cards": 2, "cadence": "every pull request", "blocking": False, "tier": "pr"},
    },
    "pytorch": {"files": ["test_op_suite.py"]},
    "run": {"cards": 1},
    "device": {"emulated": "allow"},
    "report": {"endpoint": "none", "repository": "torch-spyre/demo"},
    "matrix": {"labels": RUNNER, "runner_cards": [1]},
    "pipeline": {"runner": RUNNER, "device_runner": RUNNER, "shard_s": 1, "environment": "own"},
}


def settings(**sections: Any) -> str:
    """The settings as a file, with keys of some sections put in."""
    content: dict[str, Any] = dict(SETTINGS)
    for name, value in sections.items():
        content[name] = {**content.get(name, {}), **value} if isinstance(value, dict) else value
    return json.dumps(content, indent=2) + "\n"


def files(**sections: Any) -> dict[str, str]:
    """Every file of the project."""
    return {
        "pyproject.toml": PYPROJECT,
        "README.md": "# A package\n\nMade for tests.\n",
        "LICENSE": "Apache-2.0\n",
        "demo/__init__.py": MODULE,
        "tests/unit/test_demo.py": UNIT,
        "tests/device/test_on_card.py": ON_CARD,
        ".gitignore": "/runs/\n/dist/\n/.spyre-ci/\n",
        "spyre-ci.yaml": settings(**sections),
    }
