"""The arguments that the verbs of webhooks have in common, and the library they want."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer

from ci.core.extras import wanted

File = Annotated[Path, typer.Argument(help="The file of webhooks.")]
Names = Annotated[
    list[str] | None, typer.Option("--only", help="Only this repository; may stand several times.")
]
Prune = Annotated[
    bool,
    typer.Option(
        "--prune",
        help="Delete duplicates, and hooks with a URL of `hooks` that the repository is not to have.",
    ),
]


def extra() -> AbstractContextManager[None]:
    """Within, a library that is not there is told as what it is: the extra was not installed."""
    return wanted("webhooks want", extra="github")
