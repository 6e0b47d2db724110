"""What tests log, inside a child: one handler for all of them, where pytest would set two up a phase.

pytest hangs its handlers onto the root logger, and since 9.1 onto every logger that does not propagate, anew
for the set-up, the call and the clean-up of each test. Beside torch, which has fifty such loggers, that is
most of what a short test costs; and what it catches belongs to a report that is not written here.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from pathlib import Path

import pytest

from test_selection.files import read_bounded

PLUGIN = "logging-plugin"
FIXTURE = "caplog"


class _Printed(logging.Handler):
    """Warnings and errors go where prints go, and outlive a crash."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._stream = sys.stderr  # what a test puts in its place is to hold what that test expects

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record; a call that cannot be formatted fails its test, as under pytest."""
        text = self.format(record)
        with contextlib.suppress(OSError, ValueError):  # a test closed it
            self._stream.write(f"{text}\n")


def print_logs(session: pytest.Session, file: Path) -> bool:
    """Take pytest's handlers away and print what is logged, unless a test wants to look at it.

    Args:
        session: before its first test.
        file: the test file; it may ask for the fixture by name while a test runs.

    Returns:
        Whether that was done.
    """
    manager = session.config.pluginmanager
    if any(FIXTURE in getattr(item, "fixturenames", ()) for item in session.items) or _names(file):
        return False
    if manager.has_plugin(PLUGIN):
        manager.unregister(name=PLUGIN)
    logging.getLogger().addHandler(_Printed())
    return True


def _names(file: Path) -> bool:
    try:
        return FIXTURE.encode() in read_bounded(file)
    except OSError:
        return True
