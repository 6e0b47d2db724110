"""A file of webhooks, stand-ins of GitHub and Jenkins, and the command as people call it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml

from ci.cli.app import run
from ci.jenkins import client
from tests.calls import Said
from tests.github_api import _REPO, NOT_FOUND, Ask, GitHubApi, route
from tests.jenkins_api import JenkinsApi
from tests.stand_in import Answer

SECRET = "correct-horse-battery-staple"
URL = "https://jenkins.example.com/github-webhook/"
OLD = "https://jenkins.example.com/ghprbhook/"
HOOK = {"url": URL, "events": ["pull_request", "push"], "secret": "SPYRE_CI_WEBHOOK_SECRET"}
JOB = "spyre/pr"


@dataclass(kw_only=True)
class Desk:
    """A folder with a file of webhooks."""

    api: GitHubApi
    folder: Path
    capsys: pytest.CaptureFixture[str]
    hidden: set[str] = field(default_factory=set)

    def write(self, **changes: Any) -> None:
        """Write the file; without changes one repository with one hook."""
        content: dict[str, Any] = {
            "hosts": {"here": {"api": self.api.url}},
            # The second is one that no repository is to have any more.
            "hooks": {"jenkins": HOOK, "old": HOOK | {"url": OLD}},
            "repositories": [{"repository": "o/r", "host": "here", "hooks": ["jenkins"]}],
        }
        text = yaml.safe_dump(content | changes)
        (self.folder / "jenkins").mkdir(exist_ok=True)
        (self.folder / "jenkins" / "webhooks.yaml").write_text(text, encoding="utf-8")

    def polls(self, jenkins: JenkinsApi, *names: str, **poll: Any) -> None:
        """Write a file that polls repositories for that Jenkins."""
        self.write(
            hooks={},
            jenkins={"url": jenkins.url},
            repositories=[
                {"repository": name, "host": "here", "poll": poll or {"pull_requests": {"job": JOB}}}
                for name in names or ("o/r",)
            ],
        )

    def call(self, *words: str) -> Said:
        self.capsys.readouterr()
        code = run(["webhooks", *words])
        said = self.capsys.readouterr()
        # Whatever is said: never a secret.
        for hidden in {SECRET, self.api.token, *self.hidden}:
            assert hidden not in said.out
            assert hidden not in said.err
        return Said(code=code, out=said.out, err=said.err)

    @property
    def hooks(self) -> dict[int, dict[str, Any]]:
        return self.api.repositories["o/r"].hooks

    @property
    def writes(self) -> list[str]:
        return [one.method for one in self.api.seen if one.method != "GET"]

    @property
    def state(self) -> Path:
        return self.folder / ".spyre-ci" / "polls.json"

    def known(self, kind: str = "pull_requests", name: str = "here:o/r") -> dict[str, str]:
        """What is known of each commit."""
        content = json.loads(self.state.read_text(encoding="utf-8"))
        return {sha: note["how"] for sha, note in content["repositories"][name]["known"][kind].items()}

    def add(self, hook_id: int, repository: str = "o/r", **config: Any) -> dict[str, Any]:
        """Put a hook there as it is to be, but for what is given."""
        hook = {
            "id": hook_id, "type": "Repository", "name": "web", "active": True,
            "events": ["pull_request", "push"],
            "config": {"url": URL, "content_type": "json", "insecure_ssl": "0", "secret": SECRET, **config},
            "last_response": {"code": 200, "status": "active", "message": "OK"},
        }  # fmt: skip
        self.api.repositories[repository].hooks[hook_id] = hook
        return hook


def environment(desk: Desk, jenkins: JenkinsApi | None = None) -> dict[str, str]:
    """What a process of its own needs."""
    hosts = [desk.api.host, *([jenkins.host] if jenkins is not None else [])]
    return {
        **os.environ,
        "SPYRE_CI_GITHUB_TOKEN": desk.api.token,
        "SPYRE_CI_TRUSTED_HOSTS": " ".join(hosts),
        "PYTHONPATH": str(Path(client.__file__).parent.parent.parent),
        "NO_COLOR": "1",
    }


@route("GET", _REPO + "/hooks/{id}/deliveries")
def _list_deliveries(ask: Ask) -> Answer:
    """What was delivered, the latest first; of each ping one, with the code that the hook's target gives."""
    hook = ask.repository.hooks.get(ask.number("id"))
    if hook is None or "answers" not in hook:
        return NOT_FOUND if hook is None or not hook.get("quiet") else Answer(body=[])
    pings = len(ask.api.asked("POST", rf"/hooks/{hook['id']}/pings$"))
    code = hook["answers"]
    rows = [
        {"id": number, "event": "ping", "status": "OK" if code == 200 else "Invalid HTTP Response",
         "status_code": code, "delivered_at": f"2026-11-22T12:00:{number:02}Z"}
        for number in range(pings, 0, -1)
    ]  # fmt: skip
    return ask.page(rows)


def _refs(ask: Ask) -> Answer:
    begin = unquote(ask.names.get("ref", ""))
    found = [name for name in sorted(ask.repository.branches) if name.startswith(begin)]
    return ask.page(
        [
            {"ref": f"refs/heads/{name}", "object": {"sha": ask.repository.branches[name], "type": "commit"}}
            for name in found
        ]
    )


route("GET", _REPO + "/git/matching-refs/heads")(_refs)
route("GET", _REPO + "/git/matching-refs/heads/{ref}")(_refs)
