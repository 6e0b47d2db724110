"""Names of indexes are parts of variables' names."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.config import load_settings
from ci.config.package_model import Package
from ci.core.errors import SettingsError

INDEX = {"upload": "https://index/", "simple": "https://index/simple/"}


@pytest.mark.parametrize("name", ["stage", "s1", "my_stage", "a_b_2"])
def test_a_name_that_a_variable_can_hold_is_one(name: str) -> None:
    assert name in Package.model_validate({"indexes": {name: INDEX}}).all_indexes


@pytest.mark.parametrize("name", ["my-stage", "my__stage", "_stage", "stage_", "Stage", "1a", ""])
def test_a_name_that_none_can_hold_is_refused_and_why(tmp_path: Path, name: str) -> None:
    (tmp_path / "spyre-ci.yaml").write_text(
        f'package: {{indexes: {{"{name}": {{upload: "https://i/", simple: "https://i/"}}}}}}\n'
    )
    with pytest.raises(SettingsError) as caught:
        load_settings(path=None, environ={}, flags={}, cwd=tmp_path)
    assert "a-z, 0-9 and single underscores" in str(caught.value)
