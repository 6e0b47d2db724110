"""A folder with a file of webhooks, a stand-in of GitHub, and the command as people call it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.cli.app import run
from tests.calls import Said
from tests.github_api import GitHubApi, Repository

SECRET = "correct-horse-battery-staple"
URL = "https://jenkins.example.com/github-webhook/"
OLD = "https://jenkins.example.com/ghprbhook/"
HOOK = {"url": URL, "events": ["pull_request", "push"], "secret": "SPYRE_CI_WEBHOOK_SECRET"}


@dataclass(kw_only=True)
class Desk:
    """A folder with a file of webhooks."""

    api: GitHubApi
    folder: Path
    capsys: pytest.CaptureFixture[str]
    hidden: set[str] = field(default_factory=set)

    def write(self, *names: str, **changes: Any) -> None:
        """Write the file with one hook for each repository, all of which are there."""
        rows = [{"repository": name, "host": "here", "hooks": ["jenkins"]} for name in names or ("o/r",)]
        content: dict[str, Any] = {
            "hosts": {"here": {"api": self.api.url}},
            # The second is one that no repository is to have any more.
            "hooks": {"jenkins": HOOK, "old": HOOK | {"url": OLD}},
            "repositories": rows,
        }
        for name in names:
            self.api.repositories.setdefault(name, Repository())
        (self.folder / "jenkins").mkdir(exist_ok=True)
        text = yaml.safe_dump(content | changes)
        (self.folder / "jenkins" / "webhooks.yaml").write_text(text, encoding="utf-8")

    def apply(self, *words: str) -> Said:
        self.capsys.readouterr()
        code = run(["webhooks", "apply", *words])
        said = self.capsys.readouterr()
        # Whatever is said: never a secret.
        for hidden in {SECRET, self.api.token, *self.hidden}:
            assert hidden not in said.out + said.err
        return Said(code=code, out=said.out, err=said.err)

    @property
    def hooks(self) -> dict[int, dict[str, Any]]:
        return self.api.repositories["o/r"].hooks

    @property
    def writes(self) -> list[str]:
        return [one.method for one in self.api.seen if one.method != "GET"]

    def add(self, hook_id: int, **config: Any) -> dict[str, Any]:
        """Put a hook there as it is to be, but for what is given."""
        hook = {
            "id": hook_id, "type": "Repository", "name": "web", "active": True,
            "events": ["pull_request", "push"],
            "config": {"url": URL, "content_type": "json", "insecure_ssl": "0", "secret": SECRET, **config},
        }  # fmt: skip
        self.hooks[hook_id] = hook
        return hook


@pytest.fixture
def desk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Desk]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ci.core.github.client.FIRST_WAIT_S", 0.01)
    with GitHubApi() as api:
        api.repositories["o/r"] = Repository()
        monkeypatch.setenv("SPYRE_CI_GITHUB_TOKEN", api.token)
        monkeypatch.setenv("SPYRE_CI_TRUSTED_HOSTS", api.host)
        monkeypatch.setenv("SPYRE_CI_WEBHOOK_SECRET", SECRET)
        made = Desk(api=api, folder=tmp_path, capsys=capsys)
        made.write()
        yield made
