"""The settings of a verb."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import typer

from ci.config.load import Settings, load_settings


@dataclass(frozen=True)
class SettingsSource:
    """Where a command's settings are, read once a verb asks: one that names its own file never does.

    Attributes:
        path: the file that was named; None: that of the folder, where there is one.
        here: the folder the command was called in.
    """

    path: Path | None
    here: Path

    @cached_property
    def settings(self) -> Settings:
        """The settings; see `load_settings` for what is raised."""
        return load_settings(path=self.path, environ=os.environ, flags={}, cwd=self.here)


def settings_from_context(ctx: typer.Context) -> Settings:
    """The settings of the command that was called."""
    if (settings := ctx.find_object(Settings)) is not None:
        return settings
    source = ctx.find_object(SettingsSource)
    if source is None:
        raise TypeError("the root command did not set its SettingsSource as the context's object")
    return source.settings
