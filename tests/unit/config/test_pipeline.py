"""The settings of pipelines: what they are when nobody says anything, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.config import load_settings
from ci.config.pipeline_model import Pipeline
from ci.core.errors import SettingsError


def load(tmp_path: Path, text: str) -> Pipeline:
    (tmp_path / "spyre-ci.yaml").write_text(f"pipeline: {text}\n", encoding="utf-8")
    return load_settings(path=None, environ={}, flags={}, cwd=tmp_path).model.pipeline


def test_one_time_out_can_be_changed(tmp_path: Path) -> None:
    settings = load(tmp_path, "{timeouts: {lint: 5}}")
    assert (settings.timeouts.lint, settings.timeouts.unit) == (5, 60)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{timeouts: {lnt: 5}}", "did you mean 'lint'"),
        ("{timeouts: {lint: 0}}", "greater than or equal to 1"),
        ("{timeouts: {lint: 7201}}", "less than or equal to 7200"),
        ("{doc: []}", "did you mean 'docs'"),
        ("{docs: ['']}", "at least 1 character"),
        ("{docs: ['[z-a]']}", "is no glob"),
        ("{labels: ['a,b']}", "pattern"),
        ("{runner: []}", "at least 1 item"),
        ("{runner: ['a b']}", "pattern"),
        ("{runner: ['${{ x }}']}", "pattern"),
        ("{forks: maybe}", "'run', 'label' or 'never'"),
        ("{shard_s: 0}", "greater than 0"),
        ("{push_stage: -1}", "greater than or equal to 0"),
    ],
)
def test_what_cannot_be_taken_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, text)
    assert said in str(caught.value)
    assert "spyre-ci.yaml:1" in str(caught.value)


def test_every_setting_says_what_it_is() -> None:
    for model in (Pipeline, type(Pipeline().timeouts)):
        missing = [name for name, field in model.model_fields.items() if not field.description]
        assert missing in ([], ["timeouts"])
