"""`spyre-ci pins`: versions that are held, the ledger of their releases, and why they may change."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

import typer
from pydantic_core import to_jsonable_python

from ci.config import pins_model
from ci.config.context import settings_from_context
from ci.config.flags import Json
from ci.config.load import Settings
from ci.config.package_model import Index
from ci.core.errors import EXIT_INCOMPLETE, EXIT_TEST_FAILED, SpyreCiError, UsageError
from ci.core.extras import wanted
from ci.core.text import counted, one_line
from ci.core.workflow_commands import defused
from ci.pins import telling
from ci.pins.checklist import checklist as checklist_of
from ci.pins.checkout import checkout_at
from ci.pins.decide import as_event
from ci.pins.events import Event, Reason, add_event
from ci.pins.pull_request import Change, github_of, keep_records, restore_records, send_change
from ci.pins.record import Flag
from ci.pins.recording import Recorded, Source, record_releases
from ci.pins.releases import Releases
from ci.pins.tracks import Track, chosen, decision_lines, status_of, track_of
from ci.pins.words import day, moment
from test_selection.files import document_text

app = typer.Typer(no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="TRACK", help="Name of a track in pins.tracks.")]
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TRACK]...", help="Names of tracks in pins.tracks; default: all."),
]
# torch's own wheels for GPUs are of 3 GiB.
_MOST_MIB = 8192


@app.command()
def status(ctx: typer.Context, tracks: Names = None, as_json: Json = False) -> None:
    """Show what each track is pinned at, what was requested, and what is decided.

    Example: spyre-ci pins status torch
    """
    told = {}
    for track in _tracks(ctx, tracks):
        told[track.name], lines = status_of(track, clock())
        _say(track.name, lines, quiet=as_json)
    if as_json:
        _print("pin-status", {"tracks": told})


@app.command()
def record(
    ctx: typer.Context,
    tracks: Names = None,
    release: Annotated[
        str | None,
        typer.Option(metavar="TAG|VERSION", help="Release to record; default: all that are missing."),
    ] = None,
    flag: Annotated[Flag | None, typer.Option(help="Flag that --release gets.")] = None,
    due: Annotated[
        str | None, typer.Option(metavar="DAY|never", help="Record only the day --release is planned for.")
    ] = None,
    pinned_since: Annotated[
        str | None,
        typer.Option(metavar="DAY", help="Record only the day the current version was pinned, once."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Commit it to the branch pins/TRACK/ledger.")] = False,
    as_json: Json = False,
) -> None:
    """Add missing releases to the ledger, with all their packages; upgrade nothing.

    With --keep the ledger's branch is merged first, and a pull request for it is opened.

    Example: spyre-ci pins record torch

    Example: spyre-ci pins record runtime --release 2.4.0 --flag major
    """
    every = _tracks(ctx, tracks)
    if len(every) != 1 and (release or flag or due or pinned_since):
        raise UsageError("applies to one track", where="--release", remedy="name the track")
    if flag and not release:
        raise UsageError("a flag applies to one release", where="--flag", remedy="name it with --release")
    if due or pinned_since:
        _note(every[0], release, due, pinned_since)
        return
    found, failed = _record(settings_from_context(ctx), every, release, [flag] if flag else [], keep=keep)
    for name, one in found.items():
        _say(name, _recorded_lines(one), quiet=as_json)
    if as_json:
        _print("pins-record", {"tracks": found, "failed": failed})
    for what, why in failed.items():
        _tell(f"{what} was not recorded: {why}")
    codes = {why.exit_code for why in failed.values()}
    if codes:
        raise typer.Exit(EXIT_INCOMPLETE if EXIT_INCOMPLETE in codes else min(codes))


@app.command()
def request(
    ctx: typer.Context,
    track: Name,
    reason: Annotated[Reason | None, typer.Argument(help="Kind of reason.")] = None,
    text: Annotated[str, typer.Option(help="Explanation for people.")] = "",
    version: Annotated[str | None, typer.Option(help="Release to upgrade to; default: the newest.")] = None,
    sha: Annotated[str, typer.Option(help="SHA of that release, or of the commit with a fix.")] = "",
    withdraw: Annotated[int | None, typer.Option(metavar="ID", help="Withdraw this request.")] = None,
) -> None:
    """Request an upgrade outside the cycle, or withdraw such a request; repeating changes nothing.

    A bug or regression needs no new release, and is not delayed by a campaign.

    Example: spyre-ci pins request torch regression --text "conv2d is 3 times slower" --sha 4f0d3e2a91bc

    Example: spyre-ci pins request torch --withdraw 3 --text "it was the driver"
    """
    [one], now = _tracks(ctx, [track]), clock()
    if withdraw is not None:
        gone = add_event(one.folder, partial(telling.withdrawn, now=now, number=withdraw, text=text))
        what = "withdrawn" if gone.kind == "withdrawn" else "answered"
        _say(track, [f"request {withdraw} is {what}{_again(gone, now)}"])
        return
    make = partial(telling.requested, now=now, reason=reason, text=text, version=version, sha=sha)
    made = add_event(one.folder, make)
    _say(track, [f"request {made.id} ({reason}) is recorded{_again(made, now)}"])


@app.command()
def campaign(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the campaign.")],
    track: Annotated[
        list[str] | None, typer.Option(help="Track it applies to; repeatable; default: all.")
    ] = None,
    starts: Annotated[str | None, typer.Option(help="Day or time it starts; default: now.")] = None,
    ends: Annotated[str | None, typer.Option(help="Day or time it is planned to end; default: open.")] = None,
    over: Annotated[bool, typer.Option("--over", help="End it now, whatever was planned.")] = False,
) -> None:
    """Start a hardware test window, in which only bugs change a pin; repeat to move it.

    Example: spyre-ci pins campaign autumn --starts 2026-11-30
    """
    tracks, now, name = _tracks(ctx, track), clock(), one_line(name)
    make = partial(telling.campaign, now=now, name=name, starts=starts, ends=ends, over=over)
    # Whatever one of them refuses is refused before any of them is told.
    for one in tracks:
        make(one.events)
    for one in tracks:
        made = add_event(one.folder, make)
        what = "has ended"
        if made.kind == "campaign-started":
            begin = f"is active from {moment(made.starts)}" if made.starts > now else "is active"
            what = f"{begin} until {moment(made.ends) if made.ends else 'it is ended with --over'}"
        _say(one.name, [f"campaign {name} {what}{_again(made, now)}"])


@app.command()
def decide(
    ctx: typer.Context,
    tracks: Names = None,
    at: Annotated[str | None, typer.Option(help="Day or time to decide for; default: now.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 where an upgrade is due.")] = False,
    checklist: Annotated[bool, typer.Option("--checklist", help="Print the checklist as Markdown.")] = False,
    as_json: Json = False,
) -> None:
    """Show for each track whether its pin may change now, to what, and why; change nothing.

    Example: spyre-ci pins decide --check
    """
    now = clock() if at is None else telling.moment_of(at, "--at")
    found = {one.name: (one, one.decided(now, past=at is not None)) for one in _tracks(ctx, tracks)}
    for track, decision in found.values():
        if checklist and not as_json:
            for line in checklist_of(track.name, decision, track.records, track.events).splitlines():
                typer.echo(_shown(line))
        else:
            _say(track.name, decision_lines(decision), quiet=as_json)
    if as_json:
        _print("pin-decisions", {"tracks": {name: decision for name, (_, decision) in found.items()}})
    if check and any(decision.action == "upgrade" for _, decision in found.values()):
        raise typer.Exit(EXIT_TEST_FAILED)


@app.command()
def apply(
    ctx: typer.Context,
    track: Name,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done.")] = False,
    as_json: Json = False,
) -> None:
    """Create a branch with the decided upgrade: the pin, the ledger and the event; repeating changes nothing.

    Files and index of the checkout stay unchanged. With GITHUB_REPOSITORY and a token the branch is pushed to
    origin and a pull request with the checklist is opened.

    Example: spyre-ci pins apply torch --dry-run
    """
    [one], now = _tracks(ctx, [track]), clock()
    decision = one.decided(now)
    lines, sent = list(decision_lines(decision)), None
    if decision.action == "upgrade":
        text = checklist_of(track, decision, one.records, one.events)
        change = Change(track=track, event=as_event(decision, now), text=text)
        lines.append(f"  would create branch {change.branch}: {change.title}")
        if not dry_run:
            checkout = checkout_at(settings_from_context(ctx).base)
            github = github_of(checkout, os.environ)
            sent = send_change(checkout, github, one, change, now=now.timestamp())
            lines[-1:] = [f"  {line}" for line in sent.lines]
    _say(track, lines, quiet=as_json)
    if as_json:
        _print("pin-change", {"track": track, "decision": decision, "sent": sent})


def clock() -> datetime:
    """Now."""
    return datetime.now(UTC)


def _tracks(ctx: typer.Context, names: list[str] | None) -> list[Track]:
    settings = settings_from_context(ctx)
    return [track_of(settings, name) for name in chosen(settings, names)]


def _note(track: Track, release: str | None, due: str | None, since: str | None) -> None:
    """Note when a release is to come, or since when one is pinned."""
    version, now = release or (track.standing() if since else None), clock()
    if version is None:
        raise UsageError("no release is given", where="--release", remedy="give one")
    telling.version_of(version, "--release")
    if due:
        made = add_event(track.folder, partial(telling.scheduled, now=now, version=version, due=due))
        what = f"is due on {day(made.on)}" if made.on else "is no longer planned"
        _say(track.name, [f"{version} {what}{_again(made, now)}"])
        return
    there = Releases.of(track.records).named(version)
    sha = there.sha if there else ""
    make = partial(telling.adopted, now=now, version=version, sha=sha, since=since or "")
    unknown = "" if there else "; the ledger has no record of it yet"
    _say(track.name, [f"{version} has been pinned since {day(add_event(track.folder, make).at)}{unknown}"])


def _record(
    settings: Settings, tracks: list[Track], release: str | None, flags: list[Flag], *, keep: bool
) -> tuple[dict[str, Recorded], dict[str, SpyreCiError]]:
    """Record what is new of each track, and why what could not be; a failure of the only track is raised."""
    found: dict[str, Recorded] = {}
    failed: dict[str, SpyreCiError] = {}
    checkout = checkout_at(settings.base) if keep else None
    github = github_of(checkout, os.environ) if checkout else None
    for track in tracks:
        one = track.pins.tracks[track.name]
        try:
            if checkout:
                restore_records(checkout, github, track)
            with _source(one) as source:
                done = record_releases(track.folder, source, one, release, flags, clock=clock, echo=_tell)
            if checkout:
                done.kept = keep_records(checkout, github, track, now=clock().timestamp())
        except SpyreCiError as error:
            if len(tracks) == 1:
                raise
            failed[track.name] = error
        else:
            found[track.name] = done
            failed |= {f"{track.name} {version}": why for version, why in done.failed.items()}
    return found, failed


@contextmanager
def _source(track: pins_model.Track) -> Iterator[Source]:
    """Where a track's releases come from, while the block runs."""
    with wanted("the ledger of pins needs", extra="pins"):
        import griffe  # noqa: F401, PLC0415  # an extra, and it is better told before anything is pulled

        from ci.package.index_client import IndexClient  # noqa: PLC0415  # with pypi-simple, of the same extra
        from ci.pins.index_source import IndexSource  # noqa: PLC0415

    # What a suite calls is compared as what is named for itself.
    calls = (call for suite in track.suites for call in suite.calls)
    entry_points = tuple(dict.fromkeys([*track.entry_points, *calls]))
    if track.package is not None:
        index = Index(upload=track.index, simple=track.index, max_mib=_MOST_MIB)
        client = IndexClient(name=track.package, index=index)
        yield IndexSource(client=client, package=track.package, entry_points=entry_points, echo=_tell)
        return
    from ci.core.container_engine import engine  # noqa: PLC0415  # the engine's client takes long to import
    from ci.pins.image_source import ImageSource  # noqa: PLC0415

    name = track.image or ""
    with engine(os.environ) as docker:
        yield ImageSource(client=docker, name=name, tags=track.tags, entry_points=entry_points)


def _recorded_lines(found: Recorded) -> Iterator[str]:
    for one in found.written:
        changed = "; ".join(map(str, one.changes)) or "no direct dependency changed"
        since = f"; {changed}" if one.previous else ""
        yield f"{one.label}: {counted(len(one.packages), 'package')} from {one.read_by}{since}"
    yield from found.remarks
    yield f"{len(found.written)} recorded, {found.known} known, {len(found.failed)} failed"
    if found.kept is not None:
        yield from found.kept.lines if found.kept.commit else ["all of its releases are committed"]


def _again(made: Event, now: datetime) -> str:
    return "" if made.at == now else f", unchanged since {day(made.at)}"


def _print(kind: str, content: dict[str, Any]) -> None:
    typer.echo(document_text(kind, to_jsonable_python(content, by_alias=True, fallback=str)))


def _say(track: str, lines: Iterable[str], *, quiet: bool = False) -> None:
    """Print lines of a track; those below another are indented already."""
    for line in lines if not quiet else ():
        typer.echo(_shown(line if line.startswith("  ") else f"{track}: {line}"))


def _tell(line: str) -> None:
    typer.echo(_shown(line), err=True)


def _shown(line: str) -> str:
    """A line that commands neither a terminal nor a CI, whatever others wrote in it."""
    indent = " " * (len(line) - len(line.lstrip(" ")))
    return defused(indent + one_line(line, 3000))
