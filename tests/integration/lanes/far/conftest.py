"""What tests of lanes far away share: an order, runs as archives, and places that stand in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ci.lanes.order import Order
from tests.github_api import GitHubApi, Repository
from tests.jenkins_api import JenkinsApi, Job

NIGHTLY = """\
name: nightly
run-name: nightly ${{ inputs.idempotency_key }}
on:
  workflow_dispatch:
    inputs:
      idempotency_key: {type: string}
      stage: {type: string}
"""
MakeOrder = Callable[..., Order]


@pytest.fixture
def make_order(tmp_path: Path) -> MakeOrder:
    def make(attempt: int = 1, due: int = 1_772_366_400) -> Order:
        folder = tmp_path / "lanes" / f"{due}-{attempt}"
        folder.mkdir(parents=True, exist_ok=True)
        return Order(lane="nightly", due=due, attempt=attempt, seed=0, folder=folder)

    return make


@pytest.fixture
def order(make_order: MakeOrder) -> Order:
    return make_order()


@pytest.fixture
def jenkins() -> Iterator[JenkinsApi]:
    with JenkinsApi() as server:
        server.jobs["spyre/nightly"] = Job(parameters=("STAGE", "IDEMPOTENCY_KEY"))
        yield server


@pytest.fixture
def github() -> Iterator[GitHubApi]:
    with GitHubApi() as server:
        server.repositories["o/r"] = Repository(
            branches={"main": "a" * 40}, workflows={"nightly.yml": NIGHTLY}
        )
        yield server
