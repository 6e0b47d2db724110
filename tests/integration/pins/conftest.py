"""A real engine with a registry."""

from __future__ import annotations

import os
from collections.abc import Iterator

import docker
import pytest

from tests.engine import engine_client
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
