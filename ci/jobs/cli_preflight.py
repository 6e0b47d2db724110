"""`spyre-ci job preflight`: checks each card of this host, or of this pod, and says so a line a card."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from ci.core.errors import EXIT_INCOMPLETE, UsageError
from ci.device.environment import device_environment
from ci.record.identity import EMULATED
from ci.runner.environment_info import back_end
from ci.runner.inventory import EMULATED_DEVICE, Card, is_real, present
from ci.runner.preflight import Finding, check, until_free
from ci.steps import options
from ci.steps.context import Context

MOST_S = 3600.0


def preflight(
    ctx: typer.Context,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds a card has; default: run.preflight_timeout_s.")
    ] = None,
    device: options.Device = None,
) -> None:
    """Check each card of this host, and print a JSON object a line for each.

    Example: spyre-ci job preflight --timeout 120
    """
    context = options.make_context(ctx, {"device.name": device}, json_output=True)
    limit_s = timeout if timeout is not None else context.settings.model.run.preflight_timeout_s
    if not 0 < limit_s <= MOST_S:
        raise UsageError(f"--timeout is {limit_s:g}", remedy=f"give seconds above 0, {MOST_S:,g} at most")
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
    """What is said of a card; `ci.jobs.validate.probing` reads it."""
    return json.dumps(
        {
            "card": card,
            "ok": found.ok,
            "seconds": found.seconds,
            "message": found.message,
            "ras": found.ras,
            "emulated": emulated,
        }
    )


def _checked(context: Context, card: Card, log: Path, limit_s: float) -> Finding:
    device = context.settings.model.device
    own = device_environment(device.name, device.refuse_ops, device.refuse_dtypes)
    before = dict(os.environ)
    _become(before | own | dict(card.environment))
    try:
        return until_free(
            lambda: check(
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
        _become(before)


def _become(environ: Mapping[str, str]) -> None:
    """Children get this process's environment; nothing else says which card is theirs."""
    os.environ.clear()
    os.environ.update(environ)
