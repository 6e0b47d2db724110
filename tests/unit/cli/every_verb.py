"""Facts of every verb, for the tests of what they have in common."""

from __future__ import annotations

from functools import cache

import typer

from ci.cli.app import app
from scripts.man_pages import Facts, walk


@cache
def every_verb() -> tuple[Facts, ...]:
    """Every verb and group."""
    return tuple(walk(typer.main.get_command(app)))
