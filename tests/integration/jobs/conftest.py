"""A real engine, and jobs of its smallest image."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import docker
import pytest

from ci.core import object_store
from ci.core.containers import LABEL
from ci.jobs.job import Job
from ci.jobs.local import Here
from ci.jobs.spec import Spec
from tests.engine import engine_client
from tests.s3_server import s3_server

# As any image that is not of this project's, with a user no image knows.
USER = 1_000_800_000
MakeJob = Callable[..., Job]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def store(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of an endpoint with an empty bucket `box`."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    monkeypatch.setattr(object_store, "TRIES", 1)
    client = boto3.client("s3", endpoint_url=endpoint)
    client.create_bucket(Bucket="box")
    yield client
    for row in client.list_objects_v2(Bucket="box").get("Contents", ()):
        client.delete_object(Bucket="box", Key=row["Key"])
    client.delete_bucket(Bucket="box")


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
