"""A real engine with a registry, and a stand-in of GitHub that has whatever branch it is asked for."""

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


class Branches(dict[str, str]):
    """GitHub's branches: those of pins are there once they were sent."""

    def __contains__(self, name: object) -> bool:
        return str(name).startswith("pins/") or super().__contains__(name)

    def __missing__(self, name: str) -> str:
        return "b" * 40


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubApi]:
    with GitHubApi() as server:
        server.repositories["o/r"] = OnGitHub(branches=Branches(main="a" * 40, next="c" * 40))
        monkeypatch.setenv("GITHUB_API_URL", server.url)
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        monkeypatch.setenv("GITHUB_REPOSITORY", "o/r")
        yield server
