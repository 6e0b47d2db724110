"""Which toolkit this is: by what pip recorded, by its checkout, and by what is given."""

from __future__ import annotations

import importlib.metadata
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import UsageError
from ci.init import toolkit
from ci.init.toolkit import CODE, choose, installed
from ci.runner.environment_info import head

SHA = "1234567890abcdef1234567890abcdef12345678"


class Installed(importlib.metadata.Distribution):
    """A distribution that pip recorded something of."""

    def __init__(self, recorded: str | None) -> None:
        self._recorded = recorded

    def read_text(self, filename: str) -> str | None:
        return self._recorded if filename == "direct_url.json" else "Name: spyre-ci\nVersion: 1.2.3\n"

    def locate_file(self, path: Any) -> Any:
        return path


@pytest.mark.parametrize(
    ("recorded", "commit"),
    [
        (json.dumps({"url": "https://github.com/o/r", "vcs_info": {"commit_id": SHA}}), SHA),
        (json.dumps({"url": "https://github.com/o/r", "vcs_info": {"commit_id": "7"}}), ""),
        (json.dumps({"url": f"file://{CODE}", "dir_info": {"editable": True}}), head(CODE)),
        (json.dumps({"url": "file:///a.whl", "archive_info": {}}), ""),
        ("[]", ""),
        ("{", ""),
        (None, ""),
    ],
)
def test_a_commit_is_known_where_pip_recorded_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recorded: str | None, commit: str
) -> None:
    monkeypatch.setattr(toolkit, "CODE", tmp_path)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: Installed(recorded))
    assert installed() == ("1.2.3", commit)


def test_the_checkout_that_runs_counts_and_not_another_that_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    version = tomllib.loads((CODE / "pyproject.toml").read_text())["project"]["version"]
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: Installed("{}"))
    assert installed() == (version, head(CODE))
    # A copy of it that is installed nowhere.
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "9"\n')

    def missing(name: str) -> importlib.metadata.Distribution:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    monkeypatch.setattr(toolkit, "CODE", tmp_path)
    assert installed() == ("9", "")


@pytest.mark.parametrize(
    ("version", "commit", "ref", "named"),
    [
        ("1.2.3", SHA, None, SHA),
        ("1.2.3", "", None, "v1.2.3"),
        ("1.2.4.dev3+gabc", "", None, "v1.2.4"),
        ("1.2.3", SHA, "main", "main"),
    ],
)
def test_files_name_the_commit_else_the_release(
    version: str, commit: str, ref: str | None, named: str
) -> None:
    found = choose(version, commit, repository=None, ref=ref)
    assert (found.ref, found.repository, found.is_pinned) == (named, "torch-spyre/spyre-ci", named == SHA)


@pytest.mark.parametrize("repository", ["spyre-ci", "a/b/c", "a/b\n", "https://github.com/a/b", "a/b@c", ""])
def test_what_is_no_repository_is_refused(repository: str) -> None:
    with pytest.raises(UsageError, match="--toolkit is") as caught:
        choose("1", "", repository=repository, ref=None)
    assert "OWNER/NAME" in str(caught.value)


REFS = ["", "-x", "a b", "a\nb", "a..b", "a'b", "a/", "x # y", "${{ x }}", "a@{1}", "v1.lock."]


@pytest.mark.parametrize("ref", REFS)
def test_what_git_cannot_name_is_refused(ref: str) -> None:
    with pytest.raises(UsageError, match="--toolkit-ref is"):
        choose("1", "", repository=None, ref=ref)
