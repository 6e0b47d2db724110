"""A real engine with a registry, and a stand-in of GitHub with the branches of pins."""

from __future__ import annotations

import os
from collections.abc import Iterator

import docker
import pytest

from tests.engine import engine_client
from tests.github_api import TOKEN, GitHubApi
from tests.github_api import Repository as OnGitHub
from tests.integration.pins.images import Repository


@pytest.fixture(scope="session")
def client() -> Iterator[docker.DockerClient]:
    with engine_client() as made:
        yield made


@pytest.fixture
def repository(client: docker.DockerClient) -> Iterator[Repository]:
    made = Repository(client=client, registry=os.environ["TEST_REGISTRY"], base=os.environ["TEST_BASE_IMAGE"])
    yield made
    made.remove()


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubApi]:
    """GitHub, with the branches that the tests of `apply` and `record --keep` make."""
    branches = {"main": "a" * 40, "pins/tuning-2.10": "b" * 40, "pins/tuning-ledger": "b" * 40}
    with GitHubApi() as server:
        server.repositories["o/r"] = OnGitHub(branches=branches)
        monkeypatch.setenv("GITHUB_API_URL", server.url)
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        monkeypatch.setenv("GITHUB_REPOSITORY", "o/r")
        yield server
