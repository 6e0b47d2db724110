"""Flags that every room has, declared once: the same name and meaning everywhere."""

from __future__ import annotations

from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document; words go to standard error.")]


def renamed(old: str, new: str, old_value: Any, new_value: Any) -> Any:
    """The value of a flag that has a new name; the old one is taken for a release, and told of.

    Args:
        old: the name it had.
        new: the name it has.
        old_value: what was given by the old name; None where it was not.
        new_value: what was given by the new one, or its default.
    """
    if old_value is None:
        return new_value
    typer.echo(f"spyre-ci: {old} is {new} now; the old name goes with the next release", err=True)
    return old_value
