"""A process that opens the card it is given, computes something small, and says whether that came right."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Sequence

from ci.core.processes import die_with_parent
from ci.runner.preflight import check_card
from ci.runner.prepare import import_torch, single_thread


def main(arguments: Sequence[str]) -> None:
    """Check the card of this process's environment.

    Args:
        arguments: the device's name.
    """
    (device,) = arguments
    # The lease is its parent's, and ends with it.
    die_with_parent(os.getppid())
    single_thread(os.environ)
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        import_torch(device, machinery=False)
        code = check_card({"device": device})
    lines = said.getvalue().strip().splitlines()
    sys.stdout.write(
        json.dumps({"why": (lines or ["it does not compute as it should"])[-1] if code else ""}) + "\n"
    )
