"""`spyre-ci pins record --keep`: what was recorded is there the next day, on real Git."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from ci.config.load import load_settings
from ci.core.errors import SpyreCiError, UsageError
from ci.pins import record_cli
from ci.pins.ledger import read_records
from ci.pins.sources import Release, Seen
from tests.github_api import GitHubApi
from tests.integration.pins.checkout import Checkout

BRANCH = "pins/tuning-ledger"
SETTINGS = "pins: {tracks: {tuning: {package: tuning, direct: [torch]}}}\n"


class Registry:
    """A source of releases that notes which were looked at; versions that begin with x cannot be."""

    name = "here"

    def __init__(self) -> None:
        self.versions = ["1.0"]
        self.looked: list[str] = []

    def releases(self, only: str | None) -> Sequence[Release]:
        names = [one for one in self.versions if only in {None, one}]
        return [Release(version=one, sha=one.encode().hex().ljust(64, "0")) for one in names]

    def look(self, release: Release) -> Seen:
        self.looked.append(release.version)
        if release.version.startswith("x"):
            raise SpyreCiError("it is broken")
        return Seen(sha=release.sha, packages={"torch": "2.11"}, read_by="pip freeze")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    made = Registry()

    @contextmanager
    def source(*_: object) -> Iterator[Registry]:
        yield made

    monkeypatch.setattr(record_cli, "_source", source)
    for variable in ("GITHUB_REPOSITORY", "GITHUB_TOKEN", "GH_TOKEN", "SPYRE_CI_GITHUB_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    return made


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository with settings and without a ledger."""
    made = Checkout(tmp_path / "first")
    made.folder.mkdir()
    made.git("init", "--quiet", "--initial-branch=main")
    made.write("spyre-ci.yaml", SETTINGS)
    made.git("config", "user.name", "a")
    made.git("config", "user.email", "a@example.org")
    made.commit()
    made.git("clone", "--quiet", "--bare", str(made.folder), str(tmp_path / "origin"))
    return tmp_path / "origin"


def fresh(origin: Path, name: str) -> Checkout:
    """As a CI checks it out."""
    made = Checkout(origin.parent / name)
    made.folder.mkdir()
    made.git("clone", "--quiet", "--depth=1", origin.as_uri(), ".")
    return made


def keep(checkout: Checkout, *words: str, code: int = 0) -> str:
    settings = load_settings(path=None, environ={}, flags={}, cwd=checkout.folder)
    app = typer.Typer()
    app.command()(record_cli.record)
    done = CliRunner().invoke(app, ["--keep", *words], obj=settings)
    if isinstance(done.exception, SpyreCiError):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout


def there(origin: Path) -> list[str]:
    words = ("--git-dir", str(origin), "ls-tree", "-r", "--name-only", BRANCH)
    names = Checkout(origin.parent).git(*words).split()
    return [name.removeprefix("pins/tuning/").partition("-")[0] for name in names if name.endswith(".json")]


def test_every_day_adds_what_is_new_and_looks_at_nothing_twice(
    origin: Path, registry: Registry, api: GitHubApi
) -> None:
    monday = fresh(origin, "monday")
    head = monday.git("rev-parse", "HEAD")
    said = keep(monday)
    assert f"tuning: 1 release kept on branch {BRANCH}; pull request " in said
    assert " is opened: " in said
    assert " is open: " in keep(fresh(origin, "tuesday"))
    registry.versions.append("2.0")
    wednesday = fresh(origin, "wednesday")
    told = json.loads(keep(wednesday, "--json"))["tuning"]
    assert [one["version"] for one in told["recorded"]] == ["2.0"]
    assert told["kept"]["pull"]["state"] == "open"
    assert registry.looked == ["1.0", "2.0"]
    assert there(origin) == ["1.0", "2.0"]
    assert [one.version for one in read_records(wednesday.folder / "pins/tuning")] == ["1.0", "2.0"]
    assert (wednesday.git("rev-parse", "HEAD"), wednesday.git("branch", "--show-current")) == (head, "main")
    [made] = api.repositories["o/r"].pulls.values()
    assert (made["title"], made["base"]["ref"]) == ("tuning: 1 release recorded", "main")
    assert "- `pins/tuning/1.0-312e30000000.json`\n" in made["body"]


@pytest.mark.parametrize("how", ["--no-ff", "--squash"])
def test_after_it_was_merged_the_next_release_opens_the_next_one(
    origin: Path, registry: Registry, api: GitHubApi, how: str
) -> None:
    keep(fresh(origin, "monday"))
    people = Checkout(origin.parent / "first")
    people.git("fetch", "--quiet", str(origin), BRANCH)
    people.git("merge", "--quiet", how, *(["--no-edit"] if how == "--no-ff" else []), "FETCH_HEAD")
    people.git("commit", "--quiet", "--allow-empty", "--message", "merged")
    people.git("push", "--quiet", str(origin), "main")
    for one in api.repositories["o/r"].pulls.values():
        one.update(state="closed", merged_at="2026-11-23T08:00:00Z")
    assert "tuning: all of its releases are committed" in keep(fresh(origin, "tuesday"))
    registry.versions.append("2.0")
    assert "1 release kept" in keep(fresh(origin, "wednesday"))
    assert len(api.asked("POST", "/pulls$")) == 2
    people.git("fetch", "--quiet", str(origin), BRANCH)
    people.git("merge", "--quiet", "--no-edit", "FETCH_HEAD")
    assert registry.looked == ["1.0", "2.0"]
    assert len(read_records(people.folder / "pins/tuning")) == 2


def test_a_release_that_cannot_be_recorded_keeps_the_others(origin: Path, registry: Registry) -> None:
    registry.versions.append("x")
    checkout = fresh(origin, "monday")
    said = keep(checkout, code=2)
    assert f"to open it: git push origin {BRANCH}, and a pull request from it" in said
    assert "1.0-" in checkout.git("ls-tree", "-r", "--name-only", BRANCH)
    assert checkout.git("ls-remote", "origin", BRANCH) == ""


def test_a_ledger_whose_branch_is_checked_out_is_told(origin: Path, registry: Registry) -> None:
    checkout = fresh(origin, "monday")
    checkout.git("checkout", "--quiet", "-b", BRANCH)
    with pytest.raises(UsageError, match=f"branch {BRANCH} is checked out"):
        keep(checkout)
    assert registry.looked == []
