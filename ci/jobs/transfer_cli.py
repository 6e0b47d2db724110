"""`spyre-ci job fetch` and `put`: a model or data between a bucket and a folder."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ci.config.flags import Json
from ci.core.object_store import Bucket
from ci.jobs.transfer import Moved, amount, fetch, put
from test_selection.files import document_text


def fetch_verb(
    source: Annotated[str, typer.Argument(help="s3://bucket/prefix", metavar="SOURCE")],
    folder: Annotated[Path, typer.Argument(help="that is filled; made where it is not there")],
    json_output: Json = False,
) -> None:
    """Fetch all that is below an address of a bucket into a folder; what is there is not fetched again.

    Example: spyre-ci job fetch s3://models/small model
    """
    bucket = Bucket(source, where="SOURCE")
    _tell("fetched", fetch(bucket, folder, say=_say, clock=time.monotonic), json_output=json_output)


def put_verb(
    folder: Annotated[Path, typer.Argument(help="whose files are put")],
    to: Annotated[str, typer.Argument(help="s3://bucket/prefix", metavar="TO")],
    json_output: Json = False,
) -> None:
    """Put a folder below an address of a bucket; what is there is left, and a manifest is put last.

    Example: spyre-ci job put results s3://models/results
    """
    bucket = Bucket(to, where="TO")
    _tell("put", put(folder, bucket, say=_say, clock=time.monotonic), json_output=json_output)


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _tell(word: str, moved: Moved, *, json_output: bool) -> None:
    if json_output:
        typer.echo(document_text("job-transfer", asdict(moved)))
        return
    typer.echo(
        f"{word} {moved.moved} of {moved.files} files ({amount(moved.size)}); the others were there already"
        if moved.moved < moved.files
        else f"{word} {moved.files} files ({amount(moved.size)})"
    )
