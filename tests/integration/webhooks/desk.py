"""A file of webhooks, a stand-in of GitHub, and the command as people call it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci.cli.app import run
from tests.github_api import GitHubApi

SECRET = "correct-horse-battery-staple"
URL = "https://jenkins.example.com/github-webhook/"
HOOK = {"url": URL, "events": ["pull_request", "push"], "secret": "SPYRE_CI_WEBHOOK_SECRET"}


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


@dataclass(kw_only=True)
class Desk:
    """A folder with a file of webhooks."""

    api: GitHubApi
    folder: Path
    capsys: pytest.CaptureFixture[str]

    def write(self, **changes: Any) -> None:
        """Write the file; without changes one repository with one hook."""
        content: dict[str, Any] = {
            "hosts": {"here": {"api": self.api.url}},
            "hooks": {"jenkins": HOOK},
            "repositories": [{"repository": "o/r", "host": "here", "hooks": ["jenkins"]}],
        }
        text = yaml.safe_dump(content | changes)
        (self.folder / "jenkins").mkdir(exist_ok=True)
        (self.folder / "jenkins" / "webhooks.yaml").write_text(text, encoding="utf-8")

    def call(self, *words: str) -> Said:
        self.capsys.readouterr()
        code = run(["webhooks", *words])
        said = self.capsys.readouterr()
        # Whatever is said: never a secret.
        for hidden in (SECRET, self.api.token):
            assert hidden not in said.out
            assert hidden not in said.err
        return Said(code=code, out=said.out, err=said.err)

    @property
    def hooks(self) -> dict[int, dict[str, Any]]:
        return self.api.repositories["o/r"].hooks

    @property
    def writes(self) -> list[tuple[str, str]]:
        return [(one.method, one.path) for one in self.api.seen if one.method != "GET"]
