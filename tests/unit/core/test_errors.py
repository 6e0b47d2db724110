from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ci.core.errors import EXIT_INCOMPLETE, EXIT_USAGE, SpyreCiError, file_system_error


def test_what_the_file_system_refuses_is_told_with_place_and_remedy(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as caught:
        tmp_path.read_bytes()
    told = file_system_error(caught.value)
    assert told is not None
    assert str(told).startswith(f"{tmp_path}: cannot be used: Is a directory")
    assert told.exit_code == EXIT_USAGE


def test_a_missing_right_names_the_settings_that_lead_elsewhere() -> None:
    told = file_system_error(PermissionError(errno.EACCES, "Permission denied", "runs/x"))
    assert told is not None
    assert "`runs`" in (told.remedy or "")


def test_a_full_disk_leaves_the_run_incomplete() -> None:
    told = file_system_error(OSError(errno.ENOSPC, "No space left on device"))
    assert told is not None
    assert (told.exit_code, told.what) == (EXIT_INCOMPLETE, "No space left on device")


def test_what_is_no_matter_of_files_is_a_bug_of_ours() -> None:
    assert file_system_error(OSError("x")) is None


def test_an_error_is_told_with_its_place_where_it_has_one() -> None:
    assert (
        SpyreCiError("is no plan", where=Path("a.json"), remedy="plan again").placed == "a.json: is no plan"
    )
    assert SpyreCiError("is no plan", remedy="plan again").placed == "is no plan"
    assert str(SpyreCiError("is no plan", remedy="plan again")) == "is no plan\n  remedy: plan again"
