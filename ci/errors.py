"""Every error a user can meet while doing the work; what selection can meet stands below, in its own room."""

from __future__ import annotations

from test_selection.errors import (
    EXIT_INCOMPLETE,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_TEST_FAILED,
    EXIT_USAGE,
    BadFileError,
    MissingInputError,
    NothingToRunError,
    PlanMismatchError,
    SettingsError,
    SpyreCiError,
    UsageError,
)

__all__ = [
    "EXIT_INCOMPLETE",
    "EXIT_INTERRUPTED",
    "EXIT_OK",
    "EXIT_TEST_FAILED",
    "EXIT_USAGE",
    "BadFileError",
    "CommandError",
    "DeviceError",
    "MissingInputError",
    "NothingToRunError",
    "PlanMismatchError",
    "PortInUseError",
    "SettingsError",
    "SpyreCiError",
    "UsageError",
]


class CommandError(SpyreCiError):
    """A command we called failed, timed out or is not installed."""


class DeviceError(SpyreCiError):
    """The device that was asked for cannot be had."""

    exit_code = EXIT_INCOMPLETE


class PortInUseError(SpyreCiError):
    """A server cannot listen where it was told to."""
