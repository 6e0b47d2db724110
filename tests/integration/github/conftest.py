"""A stand-in of GitHub's API for the tests of the client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.github_api import GitHubApi, Repository


@pytest.fixture
def api() -> Iterator[GitHubApi]:
    with GitHubApi() as server:
        server.repositories["o/r"] = Repository()
        yield server
