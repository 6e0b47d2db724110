"""Records of steps: what is written is read again, and each from where the step that makes it left it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import BadFileError, MissingInputError
from ci.package.records import (
    LINT,
    UNIT,
    VERIFY,
    Record,
    find_record,
    forget_record,
    read_record,
    write_record,
)

FILES = [{"name": "demo-1.0.tar.gz", "sha256": "aa", "size": 1}]
VERIFIED = Record(
    step=VERIFY, project="demo", commit="c" * 40, dirty=("README.md",), passed=True,
    details={"files": FILES},
)  # fmt: skip


def test_a_record_is_read_as_it_was_written_until_it_is_forgotten(tmp_path: Path) -> None:
    write_record(tmp_path, VERIFIED)
    found = read_record(tmp_path, VERIFY)
    assert replace(found, details=VERIFIED.details) == VERIFIED
    assert (found.details["files"], found.hashes) == (FILES, {"demo-1.0.tar.gz": "aa"})
    forget_record(tmp_path, VERIFY)
    with pytest.raises(MissingInputError, match="there is no record of `verify`") as caught:
        read_record(tmp_path, VERIFY)
    assert "spyre-ci package verify" in str(caught.value)


def test_what_a_job_handed_on_holds_its_own_record_alone(tmp_path: Path) -> None:
    """The job that ran a project's tests may have put anything into what it hands on."""
    for step in (UNIT, LINT, VERIFY):
        write_record(tmp_path / "record-unit", replace(VERIFIED, step=step))
    write_record(tmp_path / "record-lint", replace(VERIFIED, step=LINT, passed=False))
    found = [find_record(tmp_path, step) for step in (LINT, UNIT, VERIFY)]
    assert [one and one.passed for one in found] == [False, True, None]


@pytest.mark.parametrize(
    "change",
    [
        None, {"schema": "spyre-ci/other/1"},
        {"project": 1}, {"commit": None}, {"dirty": "README.md"}, {"dirty": [1]}, {"passed": "yes"},
        {"files": {}}, {"files": [{"name": "x"}]}, {"files": [{"name": "x", "sha256": 1}]},
    ],
)  # fmt: skip
def test_a_record_that_is_none_is_said(tmp_path: Path, change: dict[str, Any] | None) -> None:
    path = write_record(tmp_path, VERIFIED)
    path.write_text("{" if change is None else json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(BadFileError, match=r"cannot be read as JSON|schema|of the wrong kind") as caught:
        read_record(tmp_path, VERIFY)
    assert "run the step again: spyre-ci package verify" in str(caught.value)
