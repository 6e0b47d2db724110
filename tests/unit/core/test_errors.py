from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ci.core.errors import EXIT_INCOMPLETE, EXIT_USAGE, CommandError, SpyreCiError, file_system_error
from ci.core.extras import wanted


def test_what_the_file_system_refuses_is_told_with_place_and_remedy(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as caught:
        tmp_path.read_bytes()
    told = file_system_error(caught.value)
    assert told is not None
    assert str(told).startswith(f"{tmp_path}: cannot be used: Is a directory")
    assert told.exit_code == EXIT_USAGE


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "runs/x"), EXIT_USAGE, "`runs`"),
        (OSError(errno.ENOSPC, "No space left on device"), EXIT_INCOMPLETE, "No space left on device"),
        # Of a copy: what is read has room enough.
        (OSError(errno.ENOSPC, "No space left", "a", None, "b"), EXIT_INCOMPLETE, "b: No space left"),
    ],
)
def test_each_refusal_has_its_code_and_words(error: OSError, code: int, said: str) -> None:
    told = file_system_error(error)
    assert told is not None
    assert told.exit_code == code
    assert said in str(told)
    assert file_system_error(OSError("x")) is None  # no matter of files: a bug of ours


def test_an_error_is_told_with_its_place_where_it_has_one() -> None:
    assert (
        SpyreCiError("is no plan", where=Path("a.json"), remedy="plan again").placed == "a.json: is no plan"
    )
    assert SpyreCiError("is no plan", remedy="plan again").placed == "is no plan"
    assert str(SpyreCiError("is no plan", remedy="plan again")) == "is no plan\n  remedy: plan again"


def test_a_library_that_is_not_installed_is_told_with_the_extra_that_has_it() -> None:
    with (
        pytest.raises(CommandError, match="not installed: github") as caught,
        wanted("x wants", extra="github"),
    ):
        raise ModuleNotFoundError("No module named 'github'", name="github")
    assert "spyre-ci[github]" in (caught.value.remedy or "")
