"""What a change is called."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.config.pins_model import TRACK_NAME
from ci.pins.change import Change
from ci.pins.events import Upgraded

NOW = datetime(2026, 11, 23, tzinfo=UTC)


def change_of(
    version: str, *, before: str = "2.9@ab", sha: str = "b" * 64, track: str = "torch", times: int = 0
) -> Change:
    event = Upgraded(at=NOW, before=before, version=version, sha=sha, reasons=(), answers=(4, 7))
    return Change(track=track, folder=Path("pins"), pin=None, event=event, text="", times=times)


@pytest.mark.parametrize(
    ("change", "branch", "title"),
    [
        (change_of("2.10"), "pins/torch-2.10", "torch: 2.9 to 2.10"),
        (change_of("2.10", before=""), "pins/torch-2.10", "torch: 2.10"),
        (change_of("2.9", times=1), "pins/torch-2.9-2", f"torch: 2.9 built again, with {'b' * 12}"),
        (change_of("2.9", times=2, sha=""), "pins/torch-2.9-3", "torch: 2.9 built again"),
        (change_of("2.8", times=1), "pins/torch-2.8-2", "torch: 2.9 to 2.8"),
        (change_of("2.10+cu1"), "pins/torch-2.10+cu1", "torch: 2.9 to 2.10+cu1"),
        (change_of("1!2"), "pins/torch-1-2", "torch: 2.9 to 1!2"),
    ],
)
def test_the_same_upgrade_has_the_same_name(change: Change, branch: str, title: str) -> None:
    assert (change.branch, change.title) == (branch, title)


def test_the_commit_says_what_it_is_and_nothing_that_others_wrote() -> None:
    assert change_of("2.10").message == (
        f"torch: 2.9 to 2.10\n\nRelease: {'b' * 64}\nAnswers: request 4 and request 7\n"
        "Why: the last line of events.jsonl; the checklist: the text of the pull request.\n"
    )
    change = replace(change_of("2 [skip ci]\n@all", before="fixes #1"), text="[skip ci] fixes #1 @all")
    assert not re.search(r"[\[\]@#]", change.message)
    assert change.title == "torch: fixes--1 to 2--skip-ci---all"


@given(version=st.text(min_size=1), track=st.from_regex(TRACK_NAME, fullmatch=True), times=st.integers(0, 9))
def test_whatever_a_release_is_called_git_takes_the_branch(version: str, track: str, times: int) -> None:
    # What git-check-ref-format(1) asks for.
    name = change_of(version, track=track, times=times).branch
    assert re.fullmatch(r"pins/[a-z0-9][A-Za-z0-9._+-]*", name)
    assert ".." not in name
    assert not name.endswith((".", ".lock"))
