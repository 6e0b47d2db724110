"""A run that is reported to a stand-in for the relay: its folder, settings and time, and what was said."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ci.config import Settings, load_settings
from ci.hud.delivery import Effects
from ci.hud.outbox import Outbox
from ci.hud.send import Delivery, Reporter, begin, give_up, report_run, send_run
from test_selection.files import read_json, write_json

TOKEN = {"SPYRE_CI_HUD_TOKEN": "s3cret-token"}
CLIENT_PAYLOAD = {
    "event_type": "pull_request",
    "delivery_id": "72d3162e-cc78",
    "payload": {
        "action": "opened",
        "pull_request": {"number": 7, "head": {"sha": "a" * 40}},
        "repository": {"full_name": "pytorch/pytorch"},
    },
}
TRANSITION: Any = (400, {}, '{"detail": "callback rejected: invalid state transition delivery_id=x"}')
BEGUN: Any = (200, {}, '{"ok": true, "status": "in_progress"}')


class Desk:
    """A run folder with a summary, and what reports it.

    Attributes:
        run_dir: of the run, below the checkout.
        relay: the stand-in; the settings name it.
        flags: of the settings, by dotted key.
        environ: of the job that reports.
        now: moved by sleeping alone.
    """

    def __init__(self, run_dir: Path, relay: Any) -> None:
        self.run_dir, self.relay = run_dir, relay
        self.folder = run_dir.parents[1]
        self.flags: dict[str, Any] = {"report.endpoint": relay.url}
        self.environ = dict(TOKEN)
        self.now = 1_785_000_000.0
        self.slept: list[float] = []
        self.lines: list[str] = []

    @property
    def settings(self) -> Settings:
        # Port 0: a server that happens to run on this machine must not be found.
        return load_settings(path=None, environ={}, flags={"hud.port": 0, **self.flags}, cwd=self.folder)

    @property
    def reporter(self) -> Reporter:
        effects = Effects(clock=lambda: self.now, sleep=self._sleep, rng=lambda: 0.5)
        return Reporter(settings=self.settings, environ=self.environ, effects=effects, echo=self.lines.append)

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def answers(self, *script: Any) -> None:
        """What the relay does next, one entry a request; after it all is taken."""
        self.relay.script = list(script)

    def begin(self) -> Any:
        return begin(self.run_dir, self.reporter)

    def deliver(self, **more: Any) -> Delivery:
        return report_run(self.run_dir, replace(self.reporter, **more))

    def give_up(self) -> Any:
        return give_up(self.run_dir, self.reporter, conclusion="cancelled")

    def send(self, run_dir: Path | None = None) -> Delivery:
        return send_run(run_dir or self.run_dir, self.reporter)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The JSON that came."""
        return [json.loads(request["body"]) for request in self.relay.requests]

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """The `workflow` of every callback that came."""
        return [body["workflow"] for body in self.bodies if "workflow" in body]

    @property
    def told(self) -> list[str]:
        return [job["status"] for job in self.jobs]

    @property
    def tokens(self) -> list[str]:
        return [request["headers"]["Authorization"] for request in self.relay.requests]

    @property
    def paths(self) -> list[str]:
        return [request["path"].partition("?")[0] for request in self.relay.requests]

    @property
    def waiting(self) -> list[str]:
        return [report.status for report in Outbox(self.run_dir, lambda: 0).pending()]

    def write_summary(self, **keys: Any) -> None:
        """Change keys of the run's summary."""
        path = self.run_dir / "summary.json"
        write_json(path, "summary", read_json(path, "summary") | keys)

    def change_identity(self, **keys: Any) -> None:
        """Change keys of the identity in the run's summary."""
        summary = read_json(self.run_dir / "summary.json", "summary")
        self.write_summary(identity=summary["identity"] | keys)

    def dispatch(self, identity: dict[str, Any], client_payload: Any = CLIENT_PAYLOAD) -> None:
        """Make it a run that the relay's dispatch starts in a GitHub job."""
        write_json(self.run_dir / "run.json", "run", identity)
        event = self.folder / "event.json"
        event.write_text(json.dumps({"client_payload": client_payload}))
        self.environ |= {
            "GITHUB_EVENT_NAME": "repository_dispatch",
            "GITHUB_EVENT_PATH": str(event),
            "SPYRE_CI_CHECK_RUN_ID": "991",
        }

    def mint(self, github: Any, *tokens: Any) -> None:
        """Make it a GitHub job that is given tokens, one a request, by a stand-in for GitHub."""
        github.script = [(200, {}, json.dumps({"value": token})) for token in tokens]
        del self.environ["SPYRE_CI_HUD_TOKEN"]
        self.environ |= {
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{github.url}/token?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "asking-token",
        }

    def put_junit(self, *cases: str) -> None:
        """Give the run JUnit files, a test a file."""
        (self.run_dir / "junit").mkdir()
        for shard, case in enumerate(cases):
            text = f"<testsuites><testsuite>{case}</testsuite></testsuites>"
            (self.run_dir / "junit" / f"{shard}.xml").write_text(text)

    def shows(self, secrets: Sequence[str]) -> bool:
        """Whether a secret is in what was said or written."""
        written = [path.read_text() for path in self.run_dir.rglob("*.json")]
        return any(secret in text for secret in secrets for text in (*written, *self.lines))
