"""The flags that verbs of `spyre-ci package` share, and the extra that all of them need."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer

from ci.core.extras import wanted


def extra() -> AbstractContextManager[None]:
    """Within, a library that is not found is told as what it is: the extra was not installed."""
    return wanted("packaging needs", extra="package", sessions="nox -s lint, unit, build or package")


ProjectFolder = Annotated[
    Path,
    typer.Argument(metavar="[PROJECT]", help="Project folder; default: the current one.", show_default=False),
]
Dist = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder of the sdist and wheel; default: package.dist.")
]
Records = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder of the steps' records; default: package.records."),
]
ForIndex = Annotated[
    str | None,
    typer.Option("--index", metavar="NAME", help="Index whose rules for versions, tags and size apply."),
]
Isolated = Annotated[
    bool, typer.Option("--isolation/--no-isolation", help="Use a new environment, or this one as it is.")
]
