"""Every error a user can meet while doing the work; what selection can meet stands below, in its own room."""

from __future__ import annotations

import errno

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
    "EXIT_GOES_ON",
    "EXIT_INCOMPLETE",
    "EXIT_INTERRUPTED",
    "EXIT_OK",
    "EXIT_TEST_FAILED",
    "EXIT_USAGE",
    "BackEndError",
    "BadFileError",
    "BucketAwayError",
    "CommandError",
    "DeviceError",
    "DiskFullError",
    "FileSystemError",
    "MissingInputError",
    "NotWholeError",
    "NothingToRunError",
    "PlanMismatchError",
    "PortInUseError",
    "RunInUseError",
    "SettingsError",
    "SpyreCiError",
    "UsageError",
    "file_system_error",
]

# What was begun goes on elsewhere: called again it is followed, not begun twice (EX_TEMPFAIL of sysexits.h).
EXIT_GOES_ON = 75

_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


class CommandError(SpyreCiError):
    """A command we called failed, timed out or is not installed."""


class BucketAwayError(CommandError):
    """A bucket that is not reached, or too busy: another time may do."""

    exit_code = EXIT_INCOMPLETE


class NotWholeError(SpyreCiError):
    """A folder, here or in a bucket, that holds a part of what it is to hold."""

    exit_code = EXIT_INCOMPLETE


class DeviceError(SpyreCiError):
    """The device that was asked for cannot be had."""

    exit_code = EXIT_INCOMPLETE


class BackEndError(SpyreCiError):
    """The device would not be the one that results would be told of."""


class PortInUseError(SpyreCiError):
    """A server cannot listen where it was told to."""


class RunInUseError(SpyreCiError):
    """A run folder that another process works in."""


class FileSystemError(SpyreCiError):
    """A file or folder cannot be read or written where it was to be."""


class DiskFullError(FileSystemError):
    """No space is left; what was to be written is incomplete."""

    exit_code = EXIT_INCOMPLETE


def file_system_error(error: OSError) -> SpyreCiError | None:
    """What the file system refused, as the user's error it is; None for what is no matter of files."""
    said = error.strerror or str(error)
    # Of a copy the second is what was written.
    where = error.filename2 or error.filename
    if error.errno in _DISK_FULL:
        return DiskFullError(said, where=where, remedy="free space there, then do the step again")
    if error.filename is None:
        return None
    if error.errno in _FORBIDDEN:
        remedy = "check its rights, or name another place with `runs`, `state`, --run-dir or --out"
    else:
        remedy = "check the path and what is there"
    return FileSystemError(f"cannot be used: {said}", where=where, remedy=remedy)
