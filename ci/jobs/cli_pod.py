"""What containers of a job run: `spyre-ci job pod`, `preflight`, `fetch` and `put`."""

from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from ci.config.flags import Json
from ci.core.errors import EXIT_INCOMPLETE
from ci.core.object_store import Bucket
from ci.core.text import counted, size
from ci.device.environment import device_environment
from ci.jobs.job import SCRATCH, STORE_VARIABLE
from ci.jobs.pod import place_of, run_pod
from ci.jobs.transfer import Moved, fetch, put
from ci.jobs.uploader import PODS, Uploader, main_alive, restore
from ci.record.identity import EMULATED
from ci.runner.environment_info import back_end
from ci.runner.inventory import EMULATED_DEVICE, Card, is_real, present
from ci.runner.preflight import Finding, check, until_free
from ci.steps import options
from ci.steps.context import Context
from test_selection.files import document_text

_SAY = partial(typer.echo, err=True)


def pod(
    ctx: typer.Context,
    source: options.Source = None,
    role: Annotated[
        Literal["run", "restore", "upload"],
        typer.Option(help="What this container does; `restore` and `upload` have the bucket's keys."),
    ] = "run",
    scratch: Annotated[Path, typer.Option(help="Folder of the pod's own disk.")] = Path(SCRATCH),
) -> None:
    """Run the shards of one pod of a job, or resume those of an earlier pod of the same index.

    JOB_COMPLETION_INDEX and SPYRE_CI_JOB_… select the shards.

    Example: spyre-ci job pod
    """
    place = place_of(os.environ)
    folder = place.folder(scratch)
    # Before anything may refuse: the uploader waits for it.
    if role == "run" and place.in_bucket:
        ctx.with_resource(main_alive(folder))
    context = options.make_context(ctx, {})
    if role != "run":
        bucket = Bucket(place.store, where=STORE_VARIABLE)
        if role == "restore":
            restore(bucket, place.run, place.index, folder, context.say)
            return
        below = f"{place.run}/{PODS}/{place.index}"
        raise typer.Exit(Uploader(bucket=bucket, below=below, folder=folder, say=context.say).run())
    if source is None and context.settings.origins.get("pytorch.source") == "environment":
        source = context.settings.model.pytorch.source  # where the image has it, not where it was planned
    raise typer.Exit(run_pod(context, place, folder, source))


def fetch_verb(
    source: Annotated[str, typer.Argument(help="s3://bucket/prefix", metavar="SOURCE")],
    folder: Annotated[Path, typer.Argument(help="Folder to fill; created if missing.")],
    json_output: Json = False,
) -> None:
    """Fetch everything below an s3:// address into a folder; skip what is already there.

    Example: spyre-ci job fetch s3://models/small model
    """
    _tell("fetched", fetch(Bucket(source, where="SOURCE"), folder, say=_SAY), json_output=json_output)


def put_verb(
    folder: Annotated[Path, typer.Argument(help="Folder whose files to put.")],
    to: Annotated[str, typer.Argument(help="s3://bucket/prefix", metavar="TO")],
    json_output: Json = False,
) -> None:
    """Put a folder below an s3:// address; skip what is already there, write a manifest last.

    Example: spyre-ci job put results s3://models/results
    """
    _tell("put", put(folder, Bucket(to, where="TO"), say=_SAY), json_output=json_output)


def _tell(word: str, moved: Moved, *, json_output: bool) -> None:
    files = counted(moved.files, "file")
    others = f"{moved.moved} of {files} ({size(moved.size)}); the others were already there"
    all_of_it = f"{files} ({size(moved.size)})"
    said = f"{word} {others if moved.moved < moved.files else all_of_it}"
    typer.echo(document_text("job-transfer", asdict(moved)) if json_output else said)


def preflight(
    ctx: typer.Context,
    timeout: Annotated[
        float | None,
        typer.Option(min=1, max=3600, help="Seconds per card; default: `run.preflight_timeout_s`."),
    ] = None,
    device: options.Device = None,
) -> None:
    """Check each card of this host, and print a line of JSON for each.

    Example: spyre-ci job preflight --timeout 120
    """
    context = options.make_context(ctx, {"device.name": device}, json_output=True)
    limit_s = timeout if timeout is not None else context.settings.model.run.preflight_timeout_s
    name = context.settings.model.device.name
    # Emulated cards are one device, however many it stands for.
    cards = present(context.environ, device=name, wanted=0, cores=1)
    # With cards and without their package, what is checked would be the emulated device in their name.
    emulated = not is_real(cards) or (name == EMULATED_DEVICE and back_end(context.environ) == EMULATED)
    all_ok = True
    with tempfile.TemporaryDirectory(prefix="spyre-ci-preflight-") as folder:
        # One after another: what tells a process its card is this process's environment.
        for card in cards:
            found = _checked(context, card, Path(folder) / "log", limit_s)
            all_ok &= found.ok
            typer.echo(line_of(card.name, found, emulated=emulated))
    if not all_ok:
        raise typer.Exit(EXIT_INCOMPLETE)


def line_of(card: str, found: Finding, *, emulated: bool) -> str:
    """The line of a card; `ci.jobs.trial` reads it."""
    row = {"card": card, "ok": found.ok, "seconds": found.seconds, "message": found.message, "ras": found.ras}
    return json.dumps(row | {"emulated": emulated})


def _checked(context: Context, card: Card, log: Path, limit_s: float) -> Finding:
    device = context.settings.model.device
    own = device_environment(device.name, device.refuse_ops, device.refuse_dtypes)
    before = dict(os.environ)
    # Children get this process's environment; nothing else says which card is theirs.
    os.environ.update(own | dict(card.environment))
    try:
        return until_free(
            partial(
                check,
                {"device": device.name, "threads": 1},
                log=log,
                # This process has not prepared what a fork would need.
                method="spawn",
                timeout_s=limit_s,
                stopped=lambda: False,
            ),
            grace_s=context.settings.model.run.grace_s,
            clock=time.monotonic,
            pause=time.sleep,
        )
    finally:
        os.environ.clear()
        os.environ.update(before)
