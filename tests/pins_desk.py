"""A desk for the tests of pins' verbs: settings with two tracks, a ledger, and a clock that stands still."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from ci.config.load import load_settings
from ci.pins import campaign_cli, cli, request_cli, status_cli, tracks
from ci.pins.diary import append_event, read_events
from ci.pins.events import Event, Upgraded
from ci.pins.ledger import write_record
from ci.pins.record import Record

NOW = datetime(2026, 11, 23, 8, tzinfo=UTC)
SETTINGS = """\
pins:
  tracks:
    tuning:
      package: tuning
      direct: [torch]
      pin: {file: stack.yaml, key: variants.pinned.version}
      suites: [{name: nightly, needs: ["torch<3"]}]
    other: {image: localhost/other, direct: [torch]}
"""
PIN = "# what runs\nvariants:\n  pinned:\n    version: '2.9' # see pins/\n"


@dataclass(kw_only=True)
class Desk:
    """Verbs on a folder; `now` is what the clock says."""

    folder: Path
    now: datetime = NOW
    runner: CliRunner = field(default_factory=CliRunner)

    def pins(self, *words: str, code: int = 0) -> str:
        """What `spyre-ci pins` prints; errors are raised."""
        result = self._run(words)
        assert result.exit_code == code, result.output
        return result.output

    def _run(self, words: Sequence[str]) -> Result:
        app = typer.Typer()

        @app.callback()
        def root(ctx: typer.Context) -> None:
            ctx.obj = load_settings(path=None, environ={}, flags={}, cwd=self.folder)

        verbs = (
            status_cli.status, status_cli.decide, request_cli.request, request_cli.withdraw,
            request_cli.schedule, request_cli.adopt, cli.apply, cli.checklist,
        )  # fmt: skip
        for verb in verbs:
            app.command()(verb)
        app.add_typer(campaign_cli.app, name="campaign")
        return self.runner.invoke(app, list(words), catch_exceptions=False)

    def events(self, track: str = "tuning") -> list[Event]:
        return read_events(self.folder / "pins" / track)

    def release(self, version: str, *, days_ago: float = 10, sha: str = "", **more: Any) -> None:
        """Put a release into the ledger."""
        record = Record(
            track="tuning", version=version, sha=sha or version.replace(".", "").ljust(64, "0"),
            source="here", recorded_at=NOW, released_at=NOW - timedelta(days=days_ago),
            packages={"torch": "2.11"}, direct={"torch": "2.11"}, **more,
        )  # fmt: skip
        write_record(self.folder / "pins/tuning", record)

    def upgraded(
        self, version: str = "2.9", *, days_ago: float = 10, deprecated: tuple[str, ...] = ()
    ) -> None:
        """Note an upgrade."""
        sha = version.replace(".", "").ljust(64, "0")
        at = NOW - timedelta(days=days_ago)
        event = Upgraded(at=at, version=version, sha=sha, reasons=("it was due",), deprecated=deprecated)
        append_event(self.folder / "pins/tuning", event)


def new_desk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Settings and a pin in a folder."""
    desk = Desk(folder=folder)
    (folder / "spyre-ci.yaml").write_text(SETTINGS)
    (folder / "stack.yaml").write_text(PIN)
    for module in (tracks, campaign_cli, cli, request_cli, status_cli):
        monkeypatch.setattr(module, "clock", lambda: desk.now)
    for variable in ("GITHUB_REPOSITORY", "GITHUB_TOKEN", "GH_TOKEN", "SPYRE_CI_GITHUB_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    return desk
