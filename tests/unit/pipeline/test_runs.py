from __future__ import annotations

from typing import Any

import pytest

from ci.pipeline.github_runs import Artifact, run_of

ROW: dict[str, Any] = {
    "id": 50,
    "run_attempt": 2,
    "name": "pull request",
    "path": ".github/workflows/a.yml@refs/heads/main",
    "event": "pull_request",
    "status": "completed",
    "conclusion": None,
    "head_sha": "a" * 40,
    "head_branch": "feature",
    "head_repository": None,
}


def test_a_run_is_read_with_what_may_be_missing() -> None:
    run = run_of(ROW)
    assert run is not None
    assert (run.path, run.conclusion, run.repository, run.attempt) == (".github/workflows/a.yml", "", "", 2)


@pytest.mark.parametrize(
    "row", [None, {}, ROW | {"id": "50"}, ROW | {"head_sha": "main"}, ROW | {"head_sha": None}]
)
def test_what_is_no_run_is_none(row: Any) -> None:
    assert run_of(row) is None


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("results", "results"),
        ("device.12", "device"),
        ("results-x.1", "results-x"),
        ("results-2", "results-2"),
    ],
)
def test_the_attempt_behind_an_artifact_s_name_is_not_its_name(name: str, group: str) -> None:
    assert Artifact(id=1, name=name).group == group
