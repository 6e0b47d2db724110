"""A desk for the tests of webhooks: stand-ins of GitHub and Jenkins, a folder and an environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.github_api import GitHubApi, Repository
from tests.integration.webhooks.desk import JOB, SECRET, Desk
from tests.jenkins_api import TOKEN, USER, JenkinsApi, Job


@pytest.fixture
def api() -> Iterator[GitHubApi]:
    with GitHubApi() as server:
        server.repositories["o/r"] = Repository()
        yield server


@pytest.fixture
def jenkins() -> Iterator[JenkinsApi]:
    with JenkinsApi() as server:
        server.jobs[JOB] = Job()
        yield server


@pytest.fixture
def desk(
    api: GitHubApi,
    jenkins: JenkinsApi,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Desk:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPYRE_CI_GITHUB_TOKEN", api.token)
    monkeypatch.setenv("SPYRE_CI_TRUSTED_HOSTS", f"{api.host} {jenkins.host}")
    monkeypatch.setenv("SPYRE_CI_WEBHOOK_SECRET", SECRET)
    monkeypatch.setenv("SPYRE_CI_JENKINS_USER", USER)
    monkeypatch.setenv("SPYRE_CI_JENKINS_TOKEN", TOKEN)
    made = Desk(api=api, folder=tmp_path, capsys=capsys, hidden={TOKEN})
    made.write()
    return made
