"""The shipped rules on a real PyTorch tree: every file is named by its folder or subject."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.runner.collect import find_files
from test_selection.rules import default_rules
from test_selection.scope import file_table


@pytest.mark.parametrize("device", ["cpu", "spyre"])
def test_no_file_of_the_tree_is_left_to_the_last_rule(pytorch_tree: Path, device: str) -> None:
    files = find_files(pytorch_tree / "test", ())
    table = file_table(files, device, default_rules())
    assert len(files) > 500
    assert table.catch_all == []
    assert sum(one.files for one in table.reasons) == len(files)
    # Each subject is there because some file is of it.
    empty = {one.code for one in table.reasons if not one.files}
    assert empty <= {"unsupported-op", "unsupported-dtype", "in-scope"}
