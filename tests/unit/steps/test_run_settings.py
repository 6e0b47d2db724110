from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from ci.config import load_settings
from ci.core.errors import BadFileError
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from ci.steps.run_settings import FILE, as_noted, read_note, write_note


def context_of(folder: Path, **flags: object) -> Context:
    return Context(
        settings=load_settings(
            path=None, environ={}, flags={f"run.{k}": v for k, v in flags.items()}, cwd=folder
        ),
        environ={},
        clock=time.time,
        monotonic=time.monotonic,
        console=Console(file=io.StringIO()),
        cores=2,
    )


def test_a_run_is_resumed_as_it_was_set_unless_a_flag_says_otherwise(tmp_path: Path) -> None:
    folder = RunFolder(path=tmp_path)
    assert read_note(folder) is None
    write_note(context_of(tmp_path, retries=7, cards=3), folder, [2], allow_collect_errors=True)
    write_note(context_of(tmp_path, retries=7, cards=3), folder, [0], allow_collect_errors=True)
    note = read_note(folder)
    assert note is not None
    assert (sorted(note.shards), note.allow_collect_errors) == ([0, 2], True)
    context = as_noted(context_of(tmp_path, cards=5), folder, note)
    assert (context.settings.model.run.retries, context.settings.model.run.cards) == (7, 5)
    file = context.console.file
    assert isinstance(file, io.StringIO)
    assert file.getvalue() == "as set in that run: retries 7\n"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"schema": "spyre-ci/run-settings/1"}',
        '{"schema": "spyre-ci/run-settings/1", "shards": ["x"], "allow_collect_errors": false, "run": {}}',
    ],
)
def test_a_note_that_cannot_be_read_is_refused_and_a_new_run_writes_it_anew(
    tmp_path: Path, content: str
) -> None:
    folder = RunFolder(path=tmp_path)
    (tmp_path / FILE).write_text(content, encoding="ascii")
    with pytest.raises(BadFileError, match="run-settings"):
        read_note(folder)
    write_note(context_of(tmp_path), folder, [1], allow_collect_errors=False)
    note = read_note(folder)
    assert note is not None
    assert note.shards == {1}


def test_a_setting_with_a_value_it_cannot_have_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(path=tmp_path)
    write_note(context_of(tmp_path), folder, [0], allow_collect_errors=False)
    text = (tmp_path / FILE).read_text(encoding="ascii")
    (tmp_path / FILE).write_text(text.replace('"retries": 1', '"retries": -1'), encoding="ascii")
    note = read_note(folder)
    assert note is not None
    with pytest.raises(BadFileError, match="retries") as caught:
        as_noted(context_of(tmp_path), folder, note)
    assert "delete the file" in str(caught.value)
