"""A stand-in of GitHub's API with a pull request, and a job's environment that leads to it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ci.cli.app import run
from tests.github_api import TOKEN, GitHubApi, Repository, pull
from tests.repositories import Repository as Checkout

Spyre = Callable[..., int]
Event = Callable[[str, Any], None]
Call = Callable[..., tuple[int, dict[str, Any], str]]
# Outputs that are words; all others are JSON.
WORDS = {"kind", "run", "fingerprint", "environment", "device_tested"}


@pytest.fixture
def api() -> Iterator[GitHubApi]:
    with GitHubApi() as server:
        server.repositories["o/r"] = Repository(pulls={7: pull(7, head="fork/r")})
        yield server


@pytest.fixture
def job(api: GitHubApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder a job works in; its environment is that of a job of o/r."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("GITHUB_EVENT_NAME", "GITHUB_EVENT_PATH", "SPYRE_CI_GITHUB_TOKEN", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    settings = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": api.url,
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_RUN_ID": "55",
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return folder


@pytest.fixture
def event(tmp_path: Path, job: Path, monkeypatch: pytest.MonkeyPatch) -> Event:  # noqa: ARG001  # in a job
    """Says what began the job."""

    def began(name: str, payload: Any) -> None:
        path = tmp_path / "event.json"
        path.write_text(json.dumps(payload))
        monkeypatch.setenv("GITHUB_EVENT_NAME", name)
        monkeypatch.setenv("GITHUB_EVENT_PATH", str(path))

    return began


@pytest.fixture
def spyre(job: Path) -> Spyre:  # noqa: ARG001  # in a job
    """Calls a verb of `spyre-ci pipeline`."""
    return lambda *words: run(["pipeline", *words])


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """A verb of `spyre-ci pipeline` in a checkout, for an event; its code, outputs and what it said."""
    for name in [name for name in os.environ if name.startswith(("GITHUB_", "JENKINS", "CHANGE_"))]:
        monkeypatch.delenv(name)

    def call(checkout: Checkout, name: str, payload: Any, *words: str) -> tuple[int, dict[str, Any], str]:
        event, outputs = tmp_path / "event.json", tmp_path / "outputs"
        event.write_text(payload if isinstance(payload, str) else json.dumps(payload), encoding="utf-8")
        outputs.unlink(missing_ok=True)
        monkeypatch.chdir(checkout.folder)
        settings = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_NAME": name,
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_OUTPUT": str(outputs),
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        }
        for key, text in settings.items():
            monkeypatch.setenv(key, text)
        # Where no verb is named, it is this one.
        code = run(["pipeline", *(() if words and not words[0].startswith("-") else ("changes",)), *words])
        said = capsys.readouterr()
        lines = outputs.read_text(encoding="utf-8").splitlines() if outputs.exists() else []
        pairs = [(key, value) for key, _, value in (line.partition("=") for line in lines)]
        found = {key: value if key in WORDS else json.loads(value) for key, value in pairs}
        return code, found, said.out + said.err

    return call
