"""`spyre-ci pins`: versions that are held, their ledger, and whether and why they may change."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ci.config.context import settings_from_context
from ci.config.flags import Json
from ci.pins import campaign_cli, record_cli, request_cli, status_cli
from ci.pins.applying import Done, carry_out, hub_of, note_of
from ci.pins.branch import repository_at
from ci.pins.change import Change
from ci.pins.events import Upgraded
from ci.pins.protocol import Decision, as_event
from ci.pins.releases import same_version
from ci.pins.tracks import Followed, Name, breaks, clock, decided, followed, say
from test_selection.files import document_text, write_text

app = typer.Typer(help="Pinned versions: their ledger, and when they may change.", no_args_is_help=True)


def checklist(
    ctx: typer.Context,
    track: Name,
    out: Annotated[Path | None, typer.Option("--out", help="A file for it; none: print it.")] = None,
) -> None:
    """Print the checklist of what is decided now, as Markdown.

    Example: spyre-ci pins checklist torch --out checklist.md
    """
    settings, now = settings_from_context(ctx), clock()
    one = followed(settings, track)
    text = _text(one, decided(settings, one, now=now))
    if out is not None:
        write_text(out, text)
        return
    for line in text.splitlines():
        say(line)


def apply(  # typer makes options of them
    ctx: typer.Context,
    track: Name,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done.")] = False,
    local: Annotated[bool, typer.Option("--local", help="Make the branch, and send it nowhere.")] = False,
    repository: Annotated[
        str, typer.Option("--repository", help="owner/name on GitHub; none: GITHUB_REPOSITORY.")
    ] = "",
    remote: Annotated[str, typer.Option("--remote", help="What Git knows it by.")] = "origin",
    base: Annotated[
        str, typer.Option("--base", help="The branch it is to go into; none: the one checked out.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Make the upgrade that is decided as a branch with the pin, the ledger and the event; again: nothing.

    Files and index of the checkout stay as they are. With a token and a repository of GitHub the branch is
    sent there and its pull request opened, with the checklist as its text.

    Example: spyre-ci pins apply torch --dry-run
    """
    settings, now = settings_from_context(ctx), clock()
    one = followed(settings, track)
    decision = decided(settings, one, now=now)
    done = Done(track=track, decision=decision)
    if decision.action == "upgrade":
        event = as_event(decision, now)
        before = [told.version for told in one.events if isinstance(told, Upgraded)]
        change = Change(
            track=track,
            folder=one.folder,
            pin=one.pin,
            event=event,
            text=_text(one, decision),
            times=sum(same_version(version, event.version) for version in before),
        )
        here = repository_at(settings.base)
        done = replace(done, change=change, note=note_of(here, change))
        if not dry_run:
            hub = None if local else hub_of(repository, os.environ)
            done = carry_out(here, done, change, hub, remote=remote, base=base, now=now.timestamp())
    if as_json:
        typer.echo(document_text("pins-apply", done.content()))
        return
    for line in done.lines(remote):
        say(line if line.startswith("  ") else f"{track}: {line}")


def _text(one: Followed, decision: Decision) -> str:
    from ci.pins.checklist import checklist as checklist_of  # noqa: PLC0415  # with templates

    return checklist_of(one.name, decision, one.records, one.events, breaks=breaks)


app.command()(status_cli.status)
app.command()(record_cli.record)
app.command()(record_cli.diff)
app.command()(request_cli.request)
app.command()(request_cli.withdraw)
app.command()(request_cli.schedule)
app.command()(request_cli.adopt)
app.command()(status_cli.decide)
app.command()(checklist)
app.command()(apply)
app.add_typer(campaign_cli.app, name="campaign")
