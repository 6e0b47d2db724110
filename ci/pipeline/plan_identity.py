"""`plan-identity.json`: what makes two plans the same work, so that the results of one hold for the other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ci
from ci.config.model import SettingsModel
from ci.core.errors import CommandError
from ci.core.git import git
from ci.record.identity import read_identity
from ci.runner.collect import collection_key
from ci.steps.context import Context
from test_selection.files import write_json
from test_selection.selection import Selection

KIND = "plan-identity"
FILE = "plan-identity.json"
# Where a run waits, meets others and notes things changes no result; all else of these sections may.
_OF_NO_MATTER = {
    "share", "share_lease_s", "share_password_file", "leases", "lease_timeout_s", "grace_s", "quarantine",
}  # fmt: skip


def parts_of(context: Context, run_dir: Path, selection: Selection) -> dict[str, str]:
    """What a plan's work is made of; a part that is not known is empty, and the same as nothing."""
    run = read_identity(run_dir)
    return {
        "tree": tree_of(context.settings.base),
        # What is not fixed by a digest is another environment tomorrow.
        "image": context.provider.image,
        "tests": selection_part(selection),
        "torch": f"{run.pytorch_version} {run.pytorch_sha}",
        "back_end": run.back_end,
        "toolkit": toolkit(),
        "environment": environment_part(context.environ),
        "settings": settings_part(context.settings.model),
    }


def write_parts(run_dir: Path, parts: Mapping[str, str]) -> None:
    """Write `plan-identity.json` of a run folder."""
    write_json(run_dir / FILE, KIND, {"parts": dict(parts)})


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


def selection_part(selection: Selection) -> str:
    """Which tests are selected, what is expected of them, and which files could not be collected; pure.

    How they are dealt depends on seconds that were measured: no two hosts agree on it.
    """
    expected = {
        name: {key: value for key, value in one.as_json().items() if key != "where"}
        for name, one in selection.expectations.items()
    }
    return _digest([sorted(selection.ids), expected, sorted(selection.collect_errors)])


def environment_part(environ: Mapping[str, str]) -> str:
    """What is installed, and which variables PyTorch's tests read."""
    read = {
        name: value
        for name, value in environ.items()
        # Settings have a part of their own, and so has the image; the faults of emulated cards are for tests.
        if not name.startswith("SPYRE_CI_") or name == "SPYRE_CI_CARD_FAULTS"
    }
    return collection_key(read, device="", extra=())


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
