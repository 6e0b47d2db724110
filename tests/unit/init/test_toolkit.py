"""Which toolkit this is: by what pip notes, by its checkout, and by what people say."""

from __future__ import annotations

import importlib.metadata
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ci.core.errors import UsageError
from ci.init.checkout import github_name
from ci.init.toolkit import choose, installed

ROOT = Path(__file__).parents[3]
SHA = "1234567890abcdef1234567890abcdef12345678"


class Installed(importlib.metadata.Distribution):
    """A distribution that pip noted something of."""

    def __init__(self, noted: str | None) -> None:
        self._noted = noted

    def read_text(self, filename: str) -> str | None:
        return self._noted if filename == "direct_url.json" else "Name: spyre-ci\nVersion: 1.2.3\n"

    def locate_file(self, path: Any) -> Any:
        return path


@pytest.mark.parametrize(
    ("noted", "commit"),
    [
        ({"url": "https://github.com/o/r", "vcs_info": {"vcs": "git", "commit_id": SHA}}, SHA),
        ({"url": "https://github.com/o/r", "vcs_info": {"vcs": "hg", "commit_id": "7"}}, ""),
        ({"url": "file:///a%20folder", "dir_info": {"editable": True}}, "f" * 40),
        ({"url": "file:///a.whl", "archive_info": {}}, ""),
        ([], ""),
        ({}, ""),
    ],
)
def test_a_commit_is_known_where_pip_noted_it(noted: Any, commit: str) -> None:
    def ask(folder: Path) -> str:
        assert folder == Path("/a folder")
        return "f" * 40

    assert installed(lambda _: Installed(json.dumps(noted)), ask, Path("/site")) == ("1.2.3", commit)


@pytest.mark.parametrize("noted", [None, "", "{"])
def test_a_release_of_an_index_has_no_commit(noted: str | None) -> None:
    found = installed(lambda _: Installed(noted), lambda _: pytest.fail("nobody is asked"), Path("/site"))
    assert found == ("1.2.3", "")


def test_the_checkout_that_runs_counts_and_not_another_that_is_installed() -> None:
    elsewhere = {"url": "file:///elsewhere", "dir_info": {"editable": True}}
    found = installed(
        lambda _: Installed(json.dumps(elsewhere)), lambda folder: SHA if folder == ROOT else ""
    )
    assert found[1] == SHA


def test_what_is_installed_nowhere_is_the_checkout_it_is_called_in() -> None:
    def find(name: str) -> importlib.metadata.Distribution:
        raise importlib.metadata.PackageNotFoundError(name)

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert installed(find, lambda folder: SHA if folder == ROOT else "") == (project["version"], SHA)
    assert installed(find, lambda _: "no commit") == (project["version"], "")


@pytest.mark.parametrize(
    ("version", "commit", "ref", "named"),
    [
        ("1.2.3", SHA, None, SHA),
        ("1.2.3", "", None, "v1.2.3"),
        ("1.2.4.dev3+gabc", "", None, "v1.2.4"),
        ("1.2.3", SHA, "main", "main"),
    ],
)
def test_what_files_name_is_the_commit_else_the_release(
    version: str, commit: str, ref: str | None, named: str
) -> None:
    found = choose(version, commit, repository=None, ref=ref)
    assert (found.ref, found.repository) == (named, "torch-spyre/spyre-ci")
    assert found.is_pinned == (named == SHA)


@pytest.mark.parametrize("repository", ["spyre-ci", "a/b/c", "a/b\n", "https://github.com/a/b", "a/b@c", ""])
def test_a_repository_that_is_none_is_refused(repository: str) -> None:
    with pytest.raises(UsageError, match="--toolkit is") as caught:
        choose("1", "", repository=repository, ref=None)
    assert "owner/name" in str(caught.value)


@pytest.mark.parametrize(
    "ref", ["", "-x", "a b", "a\nb", "a..b", "a'b", "a/", "x # y", "${{ x }}", "a@{1}", "v1.lock."]
)
def test_a_name_that_git_does_not_know_is_refused(ref: str) -> None:
    with pytest.raises(UsageError, match="--toolkit-ref is"):
        choose("1", "", repository=None, ref=ref)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://github.com/acme/torch-acme", "acme/torch-acme"),
        ("https://user:secret@github.com/acme/torch-acme.git", "acme/torch-acme"),
        ("git@github.com:acme/torch.acme.git", "acme/torch.acme"),
        ("ssh://git@github.com/acme/a/", "acme/a"),
        ("https://github.example.com/acme/a", ""),
        ("https://notgithub.com/acme/a", ""),
        ("https://github.com/acme", ""),
        ("/srv/git/github.com", ""),
        ("", ""),
    ],
)
def test_a_repository_is_known_by_its_address_on_github(address: str, name: str) -> None:
    assert github_name(address) == name
