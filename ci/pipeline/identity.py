"""What makes two plans the same work, so that the results of one hold for the other."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ci
from ci.config.model import SettingsModel
from ci.core.errors import CommandError
from ci.core.git import git
from ci.runner.collect_cache import VARIABLE_PREFIXES, VARIABLES, installed_packages
from test_selection.files import write_json
from test_selection.plan import Plan
from test_selection.selection import Selection

KIND = "plan-identity"
FILE = "plan-identity.json"
PARTS = (
    "tree", "image", "tests", "selection", "torch", "back_end", "toolkit", "environment", "settings",
)  # fmt: skip
# Where a run waits, meets others and notes things changes no result; all else of these sections may.
_OF_NO_MATTER = {
    "share", "share_lease_s", "share_password_file", "leases", "lease_timeout_s", "grace_s", "quarantine",
}  # fmt: skip
# Settings have a part of their own, and so has the image; the faults of emulated cards are for tests.
_OURS, _FAULTS = "SPYRE_CI_", "SPYRE_CI_CARD_FAULTS"


def tree_of(folder: Path) -> str:
    """The tree that is checked out; empty where that is no repository, or tracked files differ from it."""
    try:
        if git(folder, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=none"):
            return ""
        return git(folder, "rev-parse", "--verify", "HEAD^{tree}").strip()
    except CommandError:
        return ""


def toolkit() -> str:
    """Which spyre-ci this is: the tree of its checkout, or the version that was installed."""
    folder = Path(ci.__file__).parent.parent
    return tree_of(folder) if (folder / ".git").exists() else version("spyre-ci")


def settings_part(model: SettingsModel) -> str:
    """The settings that decide how tests run; pure."""
    return _digest(
        {
            "device": model.device.model_dump(mode="json"),
            "run": model.run.model_dump(mode="json", exclude=_OF_NO_MATTER),
            "pytorch": model.pytorch.model_dump(mode="json"),
            "labels": model.matrix.labels,
        }
    )


def planned_part(plan: Plan) -> str:
    """Which tests are planned, however they are dealt to shards; pure.

    The deal depends on seconds that were measured, such as those of collecting: no two hosts agree on them.
    """
    return _digest(sorted(plan.ids))


def selection_part(selection: Selection) -> str:
    """Which tests are selected, what is expected of them, and which files could not be collected; pure."""
    return _digest(
        {
            "ids": sorted(selection.ids),
            "expectations": {
                name: {key: value for key, value in one.as_json().items() if key != "where"}
                for name, one in selection.expectations.items()
            },
            "collect_errors": sorted(selection.collect_errors),
        }
    )


def environment_part(environ: Mapping[str, str], packages: Sequence[str] | None = None) -> str:
    """What is installed, and which variables PyTorch's tests read.

    Args:
        environ: the environment.
        packages: what is installed; None: looked up here.
    """
    read = {
        name: value
        for name, value in environ.items()
        if (name in VARIABLES or name.startswith(VARIABLE_PREFIXES))
        and (not name.startswith(_OURS) or name == _FAULTS)
    }
    found = installed_packages() if packages is None else list(packages)
    return _digest({"python": platform.python_version(), "packages": found, "variables": read})


def identity_of(parts: Mapping[str, str]) -> str:
    """One name for all parts; empty where one is not known, as nothing is the same as that; pure."""
    known = all(parts.get(one) for one in PARTS) and set(parts) == set(PARTS)
    return _digest(dict(parts)) if known else ""


def unknown(parts: Mapping[str, str]) -> str:
    """The parts that are not known, for people; pure."""
    return ", ".join(one for one in PARTS if not parts.get(one))


def write_plan_identity(run_dir: Path, parts: Mapping[str, str]) -> str:
    """Write `plan-identity.json` of a run folder, and return the identity."""
    identity = identity_of(parts)
    write_json(run_dir / FILE, KIND, {"identity": identity, "parts": dict(parts)})
    return identity


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
