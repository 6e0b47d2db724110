"""`spyre-ci pins record` and `diff`: releases are written into the ledger, and compared."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer
from pydantic import ValidationError

from ci.config.context import settings_from_context
from ci.config.flags import Json
from ci.config.load import Settings
from ci.config.package_model import Index
from ci.config.pins_model import Track
from ci.core.addresses import shown
from ci.core.errors import EXIT_INCOMPLETE, SettingsError, SpyreCiError, UsageError
from ci.core.extras import wanted
from ci.core.text import counted, one_line
from ci.core.workflow_commands import defused
from ci.pins.difference import as_json as difference_as_json
from ci.pins.difference import between, called, change, lines, pair
from ci.pins.keeping import Keeper, Kept
from ci.pins.ledger import read_records, track_folder
from ci.pins.record import Flag
from ci.pins.recording import Recorded, record_releases
from test_selection.files import document_text

if TYPE_CHECKING:
    from ci.pins.sources import Source

PYPI = "https://pypi.org/simple/"
# torch's own wheels for GPUs are of 3 GiB.
_MOST_MIB = 8192
_LONGEST = 500


def record(  # noqa: PLR0917  # typer makes options of them
    ctx: typer.Context,
    tracks: Annotated[
        list[str] | None, typer.Argument(metavar="[TRACK]...", help="Names of `pins.tracks`; default: all.")
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(metavar="TAG|VERSION", help="This one; default: all that the ledger has not."),
    ] = None,
    flag: Annotated[
        list[str] | None, typer.Option(help="What is said of --release: major or performance; repeatable.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep what is not committed on branch pins/TRACK-ledger.")
    ] = False,
    remote: Annotated[
        str, typer.Option("--remote", help="Where --keep sends it, as Git knows it.")
    ] = "origin",
    base: Annotated[
        str, typer.Option("--base", help="The branch it is to go into; none: the one checked out.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Write every release that the ledger has not into it, with all its packages; nothing is upgraded.

    With --keep the checkout first gets what that branch has; a pull request of it is opened where none is.

    Example: spyre-ci pins record torch

    Example: spyre-ci pins record runtime --release 2.4.0 --flag major
    """
    settings = settings_from_context(ctx)
    names = _names(settings, tracks, release)
    flags = _flags(flag or [], release)
    keeper = Keeper(settings, os.environ, remote=remote, base=base) if keep else None
    kept: dict[str, Kept] = {}
    found: dict[str, Recorded] = {}
    away: dict[str, SpyreCiError] = {}
    for name in names:
        try:
            with keeper.keeping(name, kept) if keeper else nullcontext():
                found[name] = _recorded(settings, name, release, flags)
        except SpyreCiError as error:
            if len(names) == 1:
                raise
            away[name] = error
    if as_json:
        told = {name: _as_json(settings, name, one, kept.get(name)) for name, one in found.items()}
        told |= {name: {"error": error.what} for name, error in away.items()}
        typer.echo(document_text("pins-record", told))
    else:
        for name, one in found.items():
            _print(name, one)
        for each in kept.values():
            _say(each.line(remote))
    for name, why in away.items():
        _tell(f"{name} is not recorded: {_why(why)}")
    failed = [why for one in found.values() for _, why in one.failed]
    codes = {why.exit_code for why in [*failed, *away.values()]}
    if codes:
        raise typer.Exit(EXIT_INCOMPLETE if EXIT_INCOMPLETE in codes else min(codes))


def diff(
    ctx: typer.Context,
    track: Annotated[str, typer.Argument(metavar="TRACK", help="Its name in `pins.tracks`.")],
    before: Annotated[
        str | None, typer.Argument(metavar="[BEFORE]", help="VERSION or VERSION@SHA; default: see AFTER.")
    ] = None,
    after: Annotated[
        str | None, typer.Argument(metavar="[AFTER]", help="The same; default: the newest, or the one after.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what is otherwise from one recorded release to another: packages, origins, signatures.

    Without BEFORE and AFTER, the newest is compared with the one before it.

    Example: spyre-ci pins diff runtime 2.3.0 2.4.0
    """
    records = read_records(track_folder(settings_from_context(ctx), track))
    found = between(*pair(records, before, after, track=track))
    if as_json:
        typer.echo(document_text("pins-diff", difference_as_json(found)))
        return
    for line in lines(found):
        _say(line)


def _names(settings: Settings, tracks: list[str] | None, release: str | None) -> list[str]:
    """Which tracks are asked for."""
    names = list(dict.fromkeys(tracks or sorted(settings.model.pins.tracks)))
    if not names:
        raise SettingsError(
            "nothing is tracked",
            where="pins.tracks",
            remedy="set one, with `image` or `package`, and `direct`",
        )
    if release is not None and len(names) != 1:
        raise UsageError("is of one track", where="--release", remedy="name the track before it")
    for name in names:
        track_folder(settings, name)
    return names


def _flags(given: list[str], release: str | None) -> list[Flag]:
    known = get_args(Flag)
    for one in given:
        if one not in known:
            raise UsageError(f"{one!r} is no flag", where="--flag", remedy=f"known ones: {', '.join(known)}")
    if given and release is None:
        raise UsageError("a flag is of one release", where="--flag", remedy="name it with --release")
    return [cast("Flag", one) for one in dict.fromkeys(given)]


def _recorded(settings: Settings, name: str, release: str | None, flags: list[Flag]) -> Recorded:
    folder = track_folder(settings, name)
    track = settings.model.pins.tracks[name]
    with _source(name, track) as source:
        return record_releases(
            folder,
            source,
            track=name,
            wanted=track,
            only=release,
            flags=flags,
            clock=lambda: datetime.now(UTC),
            echo=_tell,
        )


@contextmanager
def _source(name: str, track: Track) -> Iterator[Source]:
    """Where a track's releases come from, while the block runs."""
    with wanted("the ledger of pins wants", extra="pins"):
        import griffe  # noqa: F401, PLC0415  # an extra, and it is better told before anything is pulled

        from ci.package.index_client import IndexClient  # noqa: PLC0415  # with pypi-simple, of the same extra
        from ci.pins.from_index import IndexSource  # noqa: PLC0415

    # What a suite calls is compared as what is named for itself.
    calls = (call for suite in track.suites for call in suite.calls)
    entry_points = tuple(dict.fromkeys([*track.entry_points, *calls]))
    if track.package is not None:
        asker = IndexClient(name=track.package, index=_index(name, track.index or PYPI))
        yield IndexSource(asker=asker, package=track.package, entry_points=entry_points, echo=_tell)
        return
    from ci.core.container_engine import engine  # noqa: PLC0415  # the engine's client takes long to import
    from ci.pins.from_image import ImageSource  # noqa: PLC0415

    with engine(os.environ) as client:
        yield ImageSource(
            client=client,
            repository=track.image or "",
            tags=track.tags,
            entry_points=entry_points,
            echo=_tell,
        )


def _index(name: str, address: str) -> Index:
    try:
        return Index(upload=address, simple=address, max_mib=_MOST_MIB)
    except ValidationError as error:
        said = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise SettingsError(
            f"{shown(address)} {said}",
            where=f"pins.tracks.{name}.index",
            remedy="give its simple API, as pip's --index-url; a login goes into ~/.netrc, which pip reads",
        ) from None


def _print(name: str, found: Recorded) -> None:
    for one in found.written:
        count = f"{counted(len(one.packages), 'package')} by {one.read_by}"
        changed = "; ".join(change(each) for each in one.changes)
        since = f"; {changed or 'no direct dependency changed'}" if one.previous else ""
        _say(f"{name} {called(one)}: {count}{since}")
    for remark in found.remarks:
        _say(f"{name} {remark}")
    for release, error in found.failed:
        _tell(f"{name} {release.version} is not recorded: {_why(error)}")
    _say(
        f"{name}: {len(found.written)} recorded, {found.known} known, {len(found.failed)} not to be recorded"
    )


def _why(error: SpyreCiError) -> str:
    place = f"{error.where}: " if error.where else ""
    return f"{place}{error.what}{f'; {error.remedy}' if error.remedy else ''}"


def _as_json(settings: Settings, name: str, found: Recorded, kept: Kept | None) -> dict[str, object]:
    return {
        "folder": str(track_folder(settings, name)),
        "recorded": [
            {
                "version": one.version,
                "sha": one.sha,
                "previous": one.previous,
                "changes": [each.model_dump() for each in one.changes],
            }
            for one in found.written
        ],
        "known": found.known,
        "failed": [{"version": release.version, "error": error.what} for release, error in found.failed],
        "remarks": list(found.remarks),
        "kept": kept and asdict(kept),
    }


def _say(line: str) -> None:
    typer.echo(_shown(line))


def _tell(line: str) -> None:
    typer.echo(_shown(line), err=True)


def _shown(line: str) -> str:
    """What images and indexes say, as a line that commands neither a terminal nor a CI."""
    indent = " " * (len(line) - len(line.lstrip(" ")))
    return defused(indent + one_line(line, _LONGEST))
