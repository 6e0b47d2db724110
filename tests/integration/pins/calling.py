"""The verbs of the ledger, called as the command calls them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer
import yaml
from typer.testing import CliRunner

from ci.config.load import load_settings
from ci.core.errors import SpyreCiError
from ci.pins.ledger import read_records
from ci.pins.record import Record
from ci.pins.record_cli import diff, record
from tests.calls import Said

APP = typer.Typer()
APP.command()(record)
APP.command()(diff)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """A settings file with a track, perhaps with others, and the verbs on it."""

    folder: Path
    track: Mapping[str, Any]
    others: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, verb: str, *words: str) -> Said:
        """Call a verb."""
        path = self.folder / "spyre-ci.yaml"
        path.write_text(yaml.safe_dump({"pins": {"tracks": {"demo": dict(self.track), **self.others}}}))
        settings = load_settings(path=path, environ={}, flags={}, cwd=self.folder)
        done = CliRunner().invoke(APP, [verb, *words], obj=settings)
        if isinstance(done.exception, SpyreCiError):
            return Said(code=done.exception.exit_code, out=done.stdout, err=f"{done.stderr}{done.exception}")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Said(code=done.exit_code, out=done.stdout, err=done.stderr)

    @property
    def records(self) -> list[Record]:
        """What is in the ledger."""
        return read_records(self.folder / "pins" / "demo")
