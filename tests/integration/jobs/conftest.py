"""A real engine, and jobs of its smallest image."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from ci.core.containers import LABEL
from ci.jobs.job import Job
from ci.jobs.local import Here
from ci.jobs.spec import Spec
from tests.engine import engine_client

# As any image that is not of this project's, with a user no image knows.
USER = 1_000_800_000
MakeJob = Callable[..., Job]


@pytest.fixture(scope="session")
def client() -> Iterator[docker.DockerClient]:
    with engine_client() as made:
        yield made


@pytest.fixture
def make_job(client: docker.DockerClient) -> Iterator[MakeJob]:  # noqa: ARG001  # it must be there
    """Makes jobs of kind evaluation whose command is a shell script; nothing of them may be left behind."""
    made: list[str] = []

    def make(script: str, **given: Any) -> Job:
        spec = {
            "version": 1,
            "kind": "evaluation",
            "image": {"name": os.environ["TEST_BASE_IMAGE"]},
            "evaluation": {"command": ["/bin/sh", "-c", script]},
            **given.pop("spec", {}),
        }
        job = {
            "name": f"evaluation-{secrets.token_hex(4)}",
            "run": "2026-07-01-a",
            "image": os.environ["TEST_BASE_IMAGE"],
            "namespace": "spyre",
            "pods": 1,
            "deadline_s": 60,
        }
        made.append(str(job["name"]))
        return Job(spec=Spec.model_validate(spec), **{**job, **given})

    yield make
    with engine_client() as made_again:
        left = made_again.api.containers(all=True, filters={"label": LABEL})
        assert [one for one in left if one["Labels"].get(f"{LABEL}.job") in made] == []


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(
        results=tmp_path / "results",
        work=tmp_path / "work",
        environ=dict(os.environ),
        user=USER,
        network="host",
    )
