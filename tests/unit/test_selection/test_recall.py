from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from test_selection.errors import BadFileError
from test_selection.files import write_json
from test_selection.recall import read_recall

GOOD = {"faults": 3, "caught": 3, "median_share": 0.1, "mean_share": 0.1}


@pytest.mark.parametrize("wrong", [{"faults": 2}, {"caught": -1}])
def test_a_recall_that_cannot_be_is_refused(tmp_path: Path, wrong: Mapping[str, Any]) -> None:
    write_json(tmp_path / "r.json", "recall", {"budgets": {"5%": {**GOOD, **wrong}}})

    with pytest.raises(BadFileError, match="faults cannot have been caught"):
        read_recall(tmp_path / "r.json")
