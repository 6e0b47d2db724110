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
    typer.Argument(metavar="[PROJECT]", help="Folder of the project; default: this one.", show_default=False),
]
Dist = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder of sdist and wheel; default: package.dist.")
]
Records = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder of what each step notes; default: package.records."),
]
ForIndex = Annotated[
    str | None, typer.Option("--index", metavar="NAME", help="The index it is for: versions, tags, size.")
]
Isolated = Annotated[
    bool, typer.Option("--isolation/--no-isolation", help="Or with what this environment has.")
]
