"""A desk for the tests of webhooks: a stand-in of GitHub, a folder and an environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.github_api import GitHubApi, Repository
from tests.integration.webhooks.desk import SECRET, Desk


@pytest.fixture
def api() -> Iterator[GitHubApi]:
    with GitHubApi() as server:
        server.repositories["o/r"] = Repository()
        yield server


@pytest.fixture
def desk(
    api: GitHubApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Desk:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPYRE_CI_GITHUB_TOKEN", api.token)
    monkeypatch.setenv("SPYRE_CI_TRUSTED_HOSTS", api.host)
    monkeypatch.setenv("SPYRE_CI_WEBHOOK_SECRET", SECRET)
    made = Desk(api=api, folder=tmp_path, capsys=capsys)
    made.write()
    return made
