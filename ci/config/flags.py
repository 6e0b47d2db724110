"""Flags that every room has, declared once: the same name and meaning everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document; words go to standard error.")]
