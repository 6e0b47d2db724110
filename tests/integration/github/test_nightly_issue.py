"""The issue of a red night, on the stand-in of GitHub's API."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.github_api import TOKEN, GitHubApi, Repository

SCRIPT = Path(__file__).parents[3] / "scripts" / "nightly_issue.py"
Night = Callable[..., int]


@pytest.fixture
def night(api: GitHubApi) -> Night:
    """A night that came to these results, by job; the script's exit code."""
    spec = importlib.util.spec_from_file_location("nightly_issue", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)

    def call(number: int, **results: str) -> int:
        return int(
            script.main(
                {
                    "GITHUB_API_URL": api.url,
                    "GITHUB_TOKEN": TOKEN,
                    "GITHUB_REPOSITORY": "o/r",
                    "GITHUB_RUN_ID": str(number),
                    "NEEDS": json.dumps({name: {"result": result} for name, result in results.items()}),
                }
            )
        )

    return call


def told(api: GitHubApi) -> list[tuple[str, str]]:
    """The state of each issue, and what it says but its mark and dates."""
    return [
        (one["state"], " ".join(one["body"].splitlines()[2:]).split("): ")[0].split(" Newest")[0])
        for one in api.repositories["o/r"].issues.values()
    ]


def test_red_nights_have_one_issue_and_a_green_one_closes_it(api: GitHubApi, night: Night) -> None:
    repository = api.repositories["o/r"] = Repository()
    assert night(1, nightly="success") == 0
    assert told(api) == []
    assert night(2, nightly="failure") == 0
    assert told(api) == [("open", "Failed: nightly.")]
    (first,) = repository.issues.values()
    since = first["body"] = first["body"].replace("Red since 20", "Red since 19")
    assert night(3, nightly="cancelled", other="success") == 0
    assert "/o/r/actions/runs/3" in first["body"]
    # Since when it is red is kept.
    assert first["body"].splitlines()[1] == since.splitlines()[1]
    assert night(4, nightly="success") == 0
    assert told(api) == [("closed", "Green again.")]
    assert night(5, nightly="failure") == 0
    assert told(api) == [("closed", "Green again."), ("open", "Failed: nightly.")]


def test_an_issue_that_somebody_else_wrote_is_left_alone(api: GitHubApi, night: Night) -> None:
    text = "<!-- spyre-ci: nightly -->\nRed since ever.\nx"
    other = {"number": 7, "state": "open", "user": {"login": "stranger"}, "title": "x", "body": text}
    api.repositories["o/r"] = Repository(issues={7: other})
    assert night(1, nightly="failure") == 0
    assert other["body"] == text
    assert len(told(api)) == 2


def test_a_night_in_which_nothing_ran_is_red(api: GitHubApi, night: Night) -> None:
    assert night(1) == 0
    assert told(api) == [("open", "Failed: no job ran.")]
