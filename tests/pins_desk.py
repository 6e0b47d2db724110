"""A desk for the tests of pins' verbs: settings with two tracks, a ledger, and a clock that stands still."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ci.config.load import load_settings
from ci.core.errors import SpyreCiError
from ci.pins import cli
from ci.pins.events import Event, Upgraded, add_event, read_events
from ci.pins.record import Record, read_records, write_record

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
    err: str = ""

    def pins(self, *words: str, code: int = 0) -> str:
        """What `spyre-ci pins` prints; errors are raised where the code is 0, else they are in `err`."""
        settings = load_settings(path=None, environ={}, flags={}, cwd=self.folder)
        done = CliRunner().invoke(cli.app, list(words), obj=settings)
        found, self.err = done.exit_code, done.stderr
        if isinstance(done.exception, SpyreCiError) and code:
            found, self.err = done.exception.exit_code, " ".join(f"{done.stderr}{done.exception}".split())
        elif done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert found == code, done.output
        return done.stdout

    def events(self, track: str = "tuning") -> list[Event]:
        return read_events(self.folder / "pins" / track)

    def records(self, track: str = "tuning") -> list[Record]:
        return read_records(self.folder / "pins" / track)

    def release(self, version: str, *, days_ago: float = 10, **more: Any) -> None:
        """Put a release into the ledger."""
        about: dict[str, Any] = {
            "track": "tuning", "version": version, "sha": sha_of(version), "source": "here",
            "recorded_at": NOW, "released_at": NOW - timedelta(days=days_ago),
            "packages": {"torch": "2.11"}, "direct": {"torch": "2.11"},
        }  # fmt: skip
        write_record(self.folder / "pins/tuning", Record.model_validate({**about, **more}))

    def upgraded(self, version: str = "2.9", *, days_ago: float = 10, **more: Any) -> None:
        """Note an upgrade."""
        at = NOW - timedelta(days=days_ago)
        event = Upgraded(at=at, version=version, sha=sha_of(version), reasons=("it was due",), **more)
        add_event(self.folder / "pins/tuning", lambda _: event)


def sha_of(version: str) -> str:
    return version.replace(".", "").ljust(64, "0")


def new_desk(folder: Path, monkeypatch: pytest.MonkeyPatch, settings: str = SETTINGS) -> Desk:
    """Settings and a pin in a folder."""
    desk = Desk(folder=folder)
    (folder / "spyre-ci.yaml").write_text(settings)
    (folder / "stack.yaml").write_text(PIN)
    monkeypatch.setattr(cli, "clock", lambda: desk.now)
    for variable in ("GITHUB_REPOSITORY", "GITHUB_TOKEN", "GH_TOKEN", "SPYRE_CI_GITHUB_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    return desk
