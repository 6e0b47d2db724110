"""Pipelines hold no logic: they check out, call nox, and hand files on (law 8)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def steps(path: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_calls_nox_and_nothing_else(path: Path) -> None:
    allowed = re.compile(r"(python -m pip install nox|nox -s \"\$\w+\"|test \"\$\w+\" = success)\n?")
    assert [step["run"] for step in steps(path) if "run" in step and not allowed.fullmatch(step["run"])] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_grants_and_trusts_little(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    content = yaml.safe_load(text)
    assert content["permissions"] == {}
    for job in content["jobs"].values():
        assert job["timeout-minutes"]
        assert "permissions" in job
    for step in steps(path):
        assert "${{" not in step.get("run", "")
        if "uses" in step:
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step["uses"])
    assert "pull_request_target" not in text
