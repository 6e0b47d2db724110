"""The environment tests are collected and run in."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.core.withheld import without_job_secrets
from ci.steps.collect import requested_files
from ci.steps.share import Share
from test_selection.ids import canonical_id


def test_tests_are_not_told_of_the_share() -> None:
    environ = {"SPYRE_CI_SHARE_PASSWORD": "x", "SPYRE_CI__RUN__SHARE": "redis://:x@h", "PATH": "/bin"}
    assert without_job_secrets(environ) == {"PATH": "/bin"}


def test_tests_are_given_no_token_of_the_job_and_nothing_that_steers_it() -> None:
    names = [
        "SPYRE_CI_HUD_TOKEN",
        "SPYRE_CI_GITHUB_TOKEN",
        "SPYRE_CI_CLICKHOUSE_PASSWORD",
        "GITHUB_TOKEN",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
        "GITHUB_ENV",
        "GITHUB_PATH",
        "PYPI_API_TOKEN",
        "TEST_PYPI_TOKEN",
        "CI_JOB_TOKEN",
        "NPM_TOKEN",
        "POETRY_PYPI_TOKEN_PYPI",
    ]
    environ = {**dict.fromkeys(names, "x"), "GITHUB_ACTIONS": "true", "PATH": "/bin"}
    assert without_job_secrets(environ) == {"GITHUB_ACTIONS": "true", "PATH": "/bin"}


@pytest.mark.parametrize(
    "file", ["test_p%q.py", "test_a:b#2.py", "test_a\nb.py", "test_[b]*.py", "sub/test_?.py"]
)
def test_a_test_that_is_named_by_its_id_is_looked_for_in_its_own_file_alone(
    file: str, tmp_path: Path
) -> None:
    for name in (file, "test_b.py", "test_p%25q.py", "sub/test_c.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    ids = tuple(canonical_id(file, "T", name, {"k": "::x"}) for name in ("a", "b"))
    assert requested_files(tmp_path, Share(stage=None, percent=100, ids=ids)) == [file]
    share = Share(stage=None, percent=100, ids=("test_b.py::T::a",), whole_files=(file,))
    assert requested_files(tmp_path, share) == sorted([file, "test_b.py"])
