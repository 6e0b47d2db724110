"""The entrance: the command `spyre-ci`."""

from __future__ import annotations

import gc
import os
import sys

from ci.cli.streams import outlast_readers
from ci.core import interrupts
from ci.core.errors import EXIT_INTERRUPTED

__all__ = ["main"]
OBJECTS_A_COLLECTION = 50_000


def main() -> None:
    """Run the command line; ends the process with its exit code."""
    outlast_readers()
    # What a verb makes are plans, events and results by the hundred thousand, and hardly a cycle among them.
    gc.set_threshold(OBJECTS_A_COLLECTION)
    try:
        with interrupts.raised():
            with interrupts.deferred():
                from ci.cli.app import run  # noqa: PLC0415  # takes half a second, in which Ctrl-C is heard too

            code = run(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("spyre-ci: interrupted\n")
        sys.stderr.flush()
        # Where it came while a C extension ran code, Python would end by SIGINT, whatever code it is given.
        os._exit(EXIT_INTERRUPTED)
    sys.exit(code)
