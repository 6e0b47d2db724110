"""The arguments that the verbs of webhooks have in common, and the library they want."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ci.errors import CommandError

File = Annotated[Path, typer.Argument(help="The file of webhooks.")]
Names = Annotated[
    list[str] | None, typer.Option("--only", help="Only this repository; may stand several times.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Prune = Annotated[
    bool,
    typer.Option(
        "--prune",
        help="Delete duplicates, and hooks with a URL of `hooks` that the repository is not to have.",
    ),
]


@contextmanager
def extra() -> Iterator[None]:
    """Within, a library that is not there is told as what it is: the extra was not installed.

    Raises:
        CommandError: an import failed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise CommandError(
            f"webhooks want a library that is not installed: {error.name}",
            remedy="install it: pip install 'spyre-ci[github]'",
        ) from error
