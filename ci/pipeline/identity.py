"""What makes two plans the same work, so that the results of one hold for the other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci.config.model import SettingsModel
from ci.errors import CommandError
from ci.package.git import git
from test_selection.files import write_json

KIND = "plan-identity"
FILE = "plan-identity.json"
# What decides how a test runs; where a run waits, meets others and notes things does not.
_DEVICE_AND_RUN = {
    "run": {
        "cards", "test_timeout_s", "timeout_factor", "timeout_floor_s", "setup_timeout_s", "retries",
        "retry_budget", "control", "control_limit", "static", "preflight",
    },
}  # fmt: skip


def tree_of(folder: Path) -> str:
    """The tree that is checked out; empty where that is no repository, or files differ from it."""
    try:
        if git(folder, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=none"):
            return ""
        return git(folder, "rev-parse", "--verify", "HEAD^{tree}").strip()
    except CommandError:
        return ""


def parts_of(model: SettingsModel, **parts: str) -> dict[str, str]:
    """The parts of an identity, that of the settings added; pure."""
    settings: dict[str, Any] = {
        "device": model.device.model_dump(mode="json"),
        "run": model.run.model_dump(mode="json", include=_DEVICE_AND_RUN["run"]),
        "labels": list(model.matrix.labels),
    }
    return {**parts, "settings": _digest(settings)}


def identity_of(parts: Mapping[str, str]) -> str:
    """One name for all parts; empty where one of them is not known, as nothing is the same as that; pure."""
    return _digest(dict(parts)) if parts and all(parts.values()) else ""


def write_plan_identity(run_dir: Path, parts: Mapping[str, str]) -> str:
    """Write `plan-identity.json` of a run folder, and return the identity."""
    identity = identity_of(parts)
    write_json(run_dir / FILE, KIND, {"identity": identity, "parts": dict(parts)})
    return identity


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
