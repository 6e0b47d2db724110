"""The command that runs one test of a run again; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ci.core.text import clip
from ci.hud.callback import UPSTREAM_REPOSITORY, RunDetails
from ci.record.reproduce_line import Origin, ref_of, reproduce_line
from test_selection.seeds import MOST

_SHA = re.compile(r"[0-9a-f]{40}")
_NAME = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_DEVICE = re.compile(r"[a-z][a-z0-9_]{0,30}")
LONGEST = 4000


def command_of(job: Mapping[str, Any], details: RunDetails, test_id: str, *, attempt: int) -> str:
    """The command line, quoted for a shell; empty where the job does not say the device it ran on.

    Args:
        job: a row of the store.
        details: what the job says of itself.
        test_id: the canonical id.
        attempt: which try of the test is meant, from 1.
    """
    if not _DEVICE.fullmatch(details.device):
        return ""
    sha, source = job["pytorch_head_sha"], None
    if _SHA.fullmatch(sha):
        upstream = job["upstream_repo"] if _NAME.fullmatch(job["upstream_repo"]) else UPSTREAM_REPOSITORY
        source = f"git+https://github.com/{upstream}@{sha}"
    number = str(job["run_id"])
    origin = Origin(
        device=details.device,
        source=source,
        seed=details.seed if details.seed is None or details.seed <= MOST else None,
        ref=ref_of(
            run=details.run,
            provider=details.provider,
            run_id=int(number) if number.isdecimal() else 0,
            run_attempt=job["run_attempt"],
        ),
    )
    return clip(reproduce_line(test_id, origin, attempt), LONGEST)
