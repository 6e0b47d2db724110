from __future__ import annotations

import pytest

from ci.cli.options import split_files
from ci.errors import UsageError


def test_files_are_split_at_commas_and_may_be_given_again() -> None:
    assert split_files(["a.py, b.py", "c.py"]) == ["a.py", "b.py", "c.py"]
    assert split_files(None) == []


@pytest.mark.parametrize("text", ["", " , "])
def test_files_that_name_nothing_are_not_every_file(text: str) -> None:
    with pytest.raises(UsageError, match="--files is empty"):
        split_files([text])
