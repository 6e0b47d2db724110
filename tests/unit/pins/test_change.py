"""What a change is called, what its commit says, and to whom Git shows a token."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ci.config.pins_model import TRACK_NAME
from ci.pins.checkout import credentials
from ci.pins.events import Upgraded
from ci.pins.pull_request import MAX_BYTES, Change, clipped

NOW = datetime(2026, 11, 23, tzinfo=UTC)


def change_of(version: str, *, before: str = "2.9@ab", sha: str = "b" * 64, track: str = "torch") -> Change:
    event = Upgraded(at=NOW, before=before, version=version, sha=sha, reasons=(), answers=(4, 7))
    return Change(track=track, event=event, text="")


@pytest.mark.parametrize(
    ("change", "title"),
    [
        (change_of("2.10"), "torch: 2.9 to 2.10"),
        (change_of("2.10", before=""), "torch: 2.10"),
        (change_of("2.9"), f"torch: 2.9 rebuilt, with {'b' * 12}"),
        (change_of("2.9", sha=""), "torch: 2.9 rebuilt"),
        (change_of("1!2"), "torch: 2.9 to 1!2"),
        (change_of("2 [skip ci]\n@all", before="fixes #1"), "torch: fixes--1 to 2--skip-ci---all"),
    ],
)
def test_a_change_says_what_it_does_and_nothing_that_others_wrote(change: Change, title: str) -> None:
    assert change.title == title
    release = f"Release: {change.event.sha}\n" if change.event.sha else ""
    why = "The last line of events.jsonl says why; the pull request has the checklist.\n"
    assert change.message == f"{title}\n\n{release}Answers: request 4 and request 7\n{why}"
    assert not re.search(r"[\[\]@#]", change.message)


def test_the_same_upgrade_has_the_same_branch_and_any_other_another() -> None:
    one = change_of("2.10")
    assert re.fullmatch(r"pins/torch/2\.10-[0-9a-f]{8}", one.branch)
    later = one.event.model_copy(update={"at": NOW.replace(day=29), "reasons": ("62 days",)})
    assert Change(track="torch", event=later, text="other words").branch == one.branch
    updates: list[dict[str, object]] = [
        {"sha": "c" * 64},
        {"before": "2.8@ab"},
        {"answers": (4,)},
        {"supersedes": (1,)},
    ]
    others = [one.event.model_copy(update=update) for update in updates]
    assert len({one.branch, *(Change(track="torch", event=other, text="").branch for other in others)}) == 5


@given(version=st.text(min_size=1), track=st.from_regex(TRACK_NAME, fullmatch=True))
@example(version=".", track="torch")
def test_whatever_a_release_is_called_git_takes_the_branch(version: str, track: str) -> None:
    # What git-check-ref-format(1) asks for.
    name = change_of(version, track=track).branch
    assert re.fullmatch(r"pins/[a-z0-9][a-z0-9._-]*/[A-Za-z0-9._+-]+", name)
    assert ".." not in name
    assert not any(part.startswith(".") or part.endswith((".", ".lock")) for part in name.split("/"))


def test_a_text_that_is_too_long_is_cut_at_a_line_and_says_so() -> None:
    cut = clipped("- [ ] ä question\n" * 10_000)
    assert len(cut.encode()) <= MAX_BYTES
    assert cut.endswith("`spyre-ci pins decide --checklist` prints all of it.\n")
    assert set(cut.splitlines()[:-3]) == {"- [ ] ä question"}
    assert clipped("short\n") == "short\n"


PUBLIC = "https://api.github.com"


@pytest.mark.parametrize(
    ("address", "api", "host"),
    [
        ("https://github.com/o/r", PUBLIC, "https://github.com/"),
        ("https://ghe.example.com/o/r.git", "https://ghe.example.com/api/v3", "https://ghe.example.com/"),
        ("https://github.example.com/o/r", PUBLIC, ""),
        ("https://github.com.example.org/o/r", PUBLIC, ""),
        ("https://u:p@github.com/o/r", PUBLIC, ""),
        ("http://github.com/o/r", PUBLIC, ""),
        ("https://github.com:8443/o/r", PUBLIC, ""),
        ("git@github.com:o/r.git", PUBLIC, ""),
        ("ssh://git@github.com/o/r", PUBLIC, ""),
        ("/srv/git/r", PUBLIC, ""),
    ],
)
def test_a_token_is_shown_to_its_own_host_only(address: str, api: str, host: str) -> None:
    made = credentials(address, api=api, token="ghs_made_up", environ={"GIT_CONFIG_COUNT": "2"})
    assert made.get("GIT_CONFIG_KEY_3", "") == (f"http.{host}.extraHeader" if host else "")
    assert bool(made) == bool(host)
    if made:
        # What a checkout left is taken away, and what else is set stays.
        assert (made["GIT_CONFIG_COUNT"], made["GIT_CONFIG_VALUE_2"]) == ("4", "")
        shown = base64.b64encode(b"x-access-token:ghs_made_up").decode()
        assert made["GIT_CONFIG_VALUE_3"] == f"Authorization: basic {shown}"
        assert "GIT_CONFIG_KEY_0" not in made
