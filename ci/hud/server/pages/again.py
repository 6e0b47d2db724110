"""The command that runs one test of a run again; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ci.hud.callback import UPSTREAM_REPOSITORY
from ci.report.text import clip, shell_line

_SHA = re.compile(r"[0-9a-f]{40}")
_NAME = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
LONGEST = 4000


def command_of(job: Mapping[str, Any], device: str, test_id: str) -> str:
    """The command line, quoted for a shell; empty where the job does not say the device it ran on.

    Args:
        job: a row of the store.
        device: as the job says it.
        test_id: the canonical id.
    """
    if not device:
        return ""
    words = ["nox", "-s", "pytorch", "--"]
    sha = job["pytorch_head_sha"]
    if _SHA.fullmatch(sha):
        upstream = job["upstream_repo"] if _NAME.fullmatch(job["upstream_repo"]) else UPSTREAM_REPOSITORY
        words += ["--pytorch-src", f"git+https://github.com/{upstream}@{sha}"]
    return clip(shell_line([*words, "--device", device, "--id", test_id]), LONGEST)
