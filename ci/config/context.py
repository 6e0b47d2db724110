"""The settings of a verb."""

from __future__ import annotations

import typer

from ci.config.load import Settings


def settings_from_context(ctx: typer.Context) -> Settings:
    """The settings the root command resolved."""
    settings = ctx.find_object(Settings)
    if settings is None:
        raise TypeError("the root command did not set its Settings as the context's object")
    return settings
