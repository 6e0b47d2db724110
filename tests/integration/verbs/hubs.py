"""What verbs find that talk to GitHub, to a bucket or to a relay: stand-ins of these."""

from __future__ import annotations

import shutil
from typing import Any

import boto3
import yaml

from tests import github_workflows  # noqa: F401  # its routes
from tests.github_api import TOKEN, GitHubApi

from .world import World

HOOK = {
    "url": "https://jenkins.example.com/github-webhook/",
    "events": ["pull_request", "push"],
    "secret": "SPYRE_CI_WEBHOOK_SECRET",
}


def bucket(world: World) -> None:
    """An endpoint with a bucket, and JUnit of another runner."""
    client = s3_client(world)
    client.create_bucket(Bucket="ossci-raw-job-status")
    shutil.copytree(world.folder / "runs" / "nightly" / "junit", world.folder / "reports")


def s3_client(world: World) -> Any:
    """A client of a bucket's endpoint, which the environment names."""
    address = world.request.getfixturevalue("s3")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        world.patch.setenv(name, "testing")
    world.patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    world.patch.setenv("AWS_ENDPOINT_URL_S3", address)
    return boto3.client("s3", endpoint_url=address)


def github(world: World) -> None:
    """GitHub with pull request 7 of o/r, and a token for it."""
    api: GitHubApi = world.request.getfixturevalue("github")
    for name, value in {
        "GITHUB_API_URL": api.url,
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_RUN_ID": "55",
    }.items():
        world.patch.setenv(name, value)


def build(world: World) -> None:
    """What Jenkins says of a build."""
    world.patch.setenv("GIT_COMMIT", "a" * 40)
    world.patch.setenv("BUILD_URL", "https://jenkins.example.com/job/pr/5/")


def queue(world: World) -> None:
    """A merge queue's event, for whose pull request nothing ran yet."""
    group = {
        "head_sha": "a" * 40,
        "head_ref": f"refs/heads/gh-readonly-queue/main/pr-7-{'b' * 40}",
        "base_sha": "b" * 40,
        "base_ref": "refs/heads/main",
    }
    path = world.write("event.json", {"merge_group": group})
    world.patch.setenv("GITHUB_EVENT_NAME", "merge_group")
    world.patch.setenv("GITHUB_EVENT_PATH", str(path))


def webhooks(world: World, **changes: Any) -> None:
    """A file of webhooks whose repository has none yet."""
    api: GitHubApi = world.request.getfixturevalue("github")
    content: dict[str, Any] = {
        "hosts": {"here": {"api": api.url}},
        "hooks": {"jenkins": HOOK},
        "repositories": [{"repository": "o/r", "host": "here", "hooks": ["jenkins"]}],
    }
    world.write("jenkins/webhooks.yaml", yaml.safe_dump(content | changes))
    world.patch.setenv("SPYRE_CI_GITHUB_TOKEN", api.token)
    world.patch.setenv("SPYRE_CI_TRUSTED_HOSTS", api.host)
    world.patch.setenv("SPYRE_CI_WEBHOOK_SECRET", "correct-horse-battery-staple")
