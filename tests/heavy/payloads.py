"""Payloads of GitHub's webhooks, from octokit's examples, with what a scratch project needs put in."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from tests.integration.conftest import need

ROOT = Path(__file__).parent.parent.parent
REPOSITORY_ID = 1296269
_EXAMPLES = "@octokit/webhooks-examples/api.github.com/index.json"


def node_modules() -> Path:
    """Where `scripts/node_tools` installs; SPYRE_CI_NODE_MODULES names another folder."""
    return Path(os.environ.get("SPYRE_CI_NODE_MODULES") or ROOT / ".cache" / "node" / "node_modules")


@cache
def _examples() -> str:
    file = node_modules() / _EXAMPLES
    need(file.is_file(), f"{file} (scripts/node_tools)")
    return file.read_text(encoding="utf-8")


def example(name: str, action: str | None = None) -> dict[str, Any]:
    """The first example of an event, and of an action where there are several."""
    for event in json.loads(_examples()):
        if event["name"] == name:
            for one in event["examples"]:
                if action is None or one.get("action") == action:
                    return _ours(one)
    raise LookupError(f"no example of {name} {action}")


def pull_request(action: str, *labels: str, fork: bool = False) -> dict[str, Any]:
    """A pull request's event; the commits are put in by `Scratch.pull_request`."""
    payload = example("pull_request", action)
    request = payload["pull_request"]
    request["labels"] = [{"name": label} for label in labels]
    request["base"]["repo"]["id"] = REPOSITORY_ID
    request["head"]["repo"].update(
        id=REPOSITORY_ID + fork, full_name="somebody/demo" if fork else "torch-spyre/demo", fork=fork
    )
    return payload


def _ours(payload: dict[str, Any]) -> dict[str, Any]:
    if "repository" in payload:
        payload["repository"].update(
            id=REPOSITORY_ID, full_name="torch-spyre/demo", name="demo", default_branch="main"
        )
        payload["repository"]["owner"]["login"] = "torch-spyre"
    return payload
