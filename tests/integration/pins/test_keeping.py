"""`spyre-ci pins record --keep`: what was recorded is there the next day; and events written at once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import SpyreCiError, UsageError
from ci.pins import cli
from ci.pins.events import Requested, read_events
from ci.pins.recording import Release
from tests.github_api import GitHubApi
from tests.integration.pins.checkout import Checkout, fresh, new_checkout
from tests.pins_desk import Desk, new_desk, sha_of

BRANCH = "pins/tuning/ledger"
SETTINGS = "pins: {tracks: {tuning: {package: tuning, direct: [torch]}}}\n"


class Registry:
    """A source of releases that notes which were looked at; versions that begin with x cannot be."""

    name = "here"

    def __init__(self) -> None:
        self.versions = ["1.0"]
        self.looked: list[str] = []

    def releases(self, only: str | None) -> Sequence[Release]:
        return [Release(version=one, sha=sha_of(one)) for one in self.versions if only in {None, one}]

    def look(self, release: Release) -> dict[str, Any]:
        self.looked.append(release.version)
        if release.version.startswith("x"):
            raise SpyreCiError("it is broken")
        return {"sha": release.sha, "packages": {"torch": "2.11"}, "read_by": "METADATA"}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    made = Registry()

    @contextmanager
    def source(*_: object) -> Iterator[Registry]:
        yield made

    monkeypatch.setattr(cli, "_source", source)
    return made


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    folder = tmp_path / "first"
    folder.mkdir()
    desk = new_desk(folder, monkeypatch, SETTINGS)
    new_checkout(folder)
    return desk


def keep(desk: Desk, day: str, *words: str, code: int = 0) -> str:
    """Record in a checkout that a CI makes anew."""
    first = Checkout(desk.folder.parent / "first")
    desk.folder = fresh(first, day).folder
    return desk.pins("record", "--keep", *words, code=code)


def there(desk: Desk) -> list[str]:
    origin = str(desk.folder.parent / "origin")
    names = Checkout(desk.folder).git("--git-dir", origin, "ls-tree", "-r", "--name-only", BRANCH).split()
    return [name.removeprefix("pins/tuning/").partition("-")[0] for name in names if name.endswith(".json")]


def test_every_day_adds_what_is_new_and_looks_at_nothing_twice(
    desk: Desk, registry: Registry, api: GitHubApi
) -> None:
    assert f"tuning: branch {BRANCH} was created\ntuning: pull request " in keep(desk, "monday")
    assert " is open: " in keep(desk, "tuesday")
    registry.versions.append("2.0")
    told = json.loads(keep(desk, "wednesday", "--json"))["tracks"]["tuning"]
    assert [one["version"] for one in told["written"]] == ["2.0"]
    assert told["kept"]["pull"]["state"] == "open"
    assert (registry.looked, there(desk)) == (["1.0", "2.0"], ["1.0", "2.0"])
    assert [one.version for one in desk.records()] == ["1.0", "2.0"]
    wednesday = Checkout(desk.folder)
    head = wednesday.git("rev-parse", "origin/main")
    assert (wednesday.git("rev-parse", "HEAD"), wednesday.git("branch", "--show-current")) == (head, "main")
    [made] = api.repositories["o/r"].pulls.values()
    assert (made["title"], made["base"]["ref"]) == ("tuning: 1 release recorded", "main")
    assert "- `pins/tuning/1.0-100000000000.json`\n" in made["body"]


@pytest.mark.parametrize("how", ["--no-ff", "--squash"])
def test_after_it_was_merged_the_next_release_opens_the_next_one(
    desk: Desk, registry: Registry, api: GitHubApi, how: str
) -> None:
    people = Checkout(desk.folder)
    keep(desk, "monday")
    people.git("fetch", "--quiet", "origin", BRANCH)
    people.git("merge", "--quiet", how, *(["--no-edit"] if how == "--no-ff" else []), "FETCH_HEAD")
    people.git("commit", "--quiet", "--allow-empty", "--message", "merged")
    people.git("push", "--quiet", "origin", "main")
    for one in api.repositories["o/r"].pulls.values():
        one.update(state="closed", merged_at="2026-11-23T08:00:00Z")
    assert "tuning: all of its releases are committed" in keep(desk, "tuesday")
    registry.versions.append("2.0")
    assert "is opened" in keep(desk, "wednesday")
    assert len(api.asked("POST", "/pulls$")) == 2
    people.git("fetch", "--quiet", "origin", BRANCH)
    people.git("merge", "--quiet", "--no-edit", "FETCH_HEAD")
    assert registry.looked == ["1.0", "2.0"]
    assert len(list((people.folder / "pins/tuning").glob("*.json"))) == 2


def test_a_release_that_cannot_be_recorded_keeps_the_others(desk: Desk, registry: Registry) -> None:
    registry.versions.append("x")
    assert f"to propose it: git push origin {BRANCH}, then open a pull request from it" in keep(
        desk, "monday", code=2
    )
    checkout = Checkout(desk.folder)
    assert "1.0-" in checkout.git("ls-tree", "-r", "--name-only", BRANCH)
    assert checkout.tip(BRANCH) == ""
    checkout.git("checkout", "--quiet", "--force", BRANCH)
    with pytest.raises(UsageError, match=f"branch {BRANCH} is checked out"):
        desk.pins("record", "--keep")
    assert registry.looked == ["1.0", "x"]


WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from ci.pins.events import Requested, add_event, next_id

for number in range(40):
    add_event(Path(sys.argv[1]), lambda events: Requested(
        at=datetime.now(UTC), id=next_id(events), reason="bug", text=f"{sys.argv[2]} {number}"))
"""


def test_processes_that_write_at_once_lose_nothing_and_number_nothing_twice(tmp_path: Path) -> None:
    folder = tmp_path / "torch"
    argv = [sys.executable, "-c", WRITER, str(folder)]
    writers = [subprocess.Popen([*argv, name]) for name in ("one", "two", "three")]
    assert [one.wait(120) for one in writers] == [0, 0, 0]
    requests = [one for one in read_events(folder) if isinstance(one, Requested)]
    assert [one.id for one in requests] == list(range(1, 121))
    for name in ("one", "two", "three"):
        said = [one.text for one in requests if one.text.startswith(f"{name} ")]
        assert said == [f"{name} {number}" for number in range(40)]
