"""Making many objects at once without Python looking for cycles among them over and over."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Leave the cycle collector off for a block that makes no cycles.

    Looking for them among a million tests takes as long as the work itself. What was on is on afterwards,
    whatever the block raised.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
