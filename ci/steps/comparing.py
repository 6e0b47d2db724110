"""The sides of `select diff`: catalogs, locks, selections, run folders, and stages of the roll-out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ci.core.errors import BadFileError, MissingInputError, SpyreCiError, UsageError
from ci.steps.collecting import noted_source
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from ci.steps.ladder import find_lock
from ci.steps.past_durations import past_durations
from ci.steps.selecting import choose, in_scope
from ci.steps.share import share_of
from test_selection.catalog import KIND as CATALOG
from test_selection.catalog import read_catalog
from test_selection.difference import Side
from test_selection.files import read_lines
from test_selection.lock import KIND as LADDER
from test_selection.lock import members, read_lock
from test_selection.selection import read_selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """Where sides are looked for: the settings, and the catalog that stages are taken of, where named."""

    context: Context
    catalog: Path | None = None


def find_side(desk: Desk, named: str) -> Side:
    """A side by its name: a file, a run folder, or the number of a stage of the roll-out.

    Raises:
        MissingInputError: there is no such file or folder.
        BadFileError: it is none of these, or broken.
        UsageError: a stage is named without a catalog, or one the roll-out does not have.
    """
    path = Path(named)
    if named.isdecimal() and not path.exists():
        return _stage(desk, int(named))
    if path.is_dir():
        folder = RunFolder(path=path)
        path = folder.selection if folder.selection.is_file() else folder.catalog
    if not path.is_file():
        raise MissingInputError(
            "there is no such file", where=named, remedy="name a catalog, lock, selection or run folder"
        )
    if _is(path, CATALOG):
        return Side(name=named, known=[test.id for test in read_catalog(path).tests])
    return _lock(desk, named, path) if _is(path, LADDER) else _selection(named, path)


def _lock(desk: Desk, named: str, path: Path) -> Side:
    lock = read_lock(path)
    tests = lock.ladder.tests
    selected = {
        f"stage {number} ({row.percent:g} % by {row.by})": [
            test.id for test in members(tests, lock, percent=row.percent, by=row.by)
        ]
        for number, row in sorted(desk.context.settings.model.stages.items())
        if row.percent
    }
    return Side(name=named, known=[test.id for test in tests], selected=selected)


def _selection(named: str, path: Path) -> Side:
    """What was selected, and what could have been where the catalog still lies beside it."""
    try:
        chosen = read_selection(path)
    except BadFileError as error:
        raise BadFileError(
            f"is neither a catalog, a lock nor a selection: {error.what}",
            where=error.where or path,
            remedy="name one of them, such as catalog.jsonl.gz, ladder.lock.gz or selection.json of a run",
        ) from error
    beside = RunFolder(path=path.parent).catalog
    known = [test.id for test in read_catalog(beside).tests] if beside.is_file() else None
    return Side(name=named, known=known, selected={"": chosen.ids})


def _stage(desk: Desk, number: int) -> Side:
    if desk.catalog is None:
        raise UsageError(
            f"stage {number} is named without a catalog",
            remedy="give --run-dir or --catalog, or the name of a file",
        )
    context, catalog = desk.context, read_catalog(desk.catalog)
    source = noted_source(context, RunFolder(path=desk.catalog.parent))
    share = share_of(context, stage=number, percent=None, files=(), keyword=None, ids=())
    what = in_scope(context, catalog, source, past_durations(context, catalog.device))
    places = find_lock(context, what)
    inside = choose(context, what, replace(share, percent=100), places=places)
    chosen = choose(context, what, share, places=places)
    return Side(name=f"stage {number}", known=inside.ids, selected={"": chosen.ids})


def _is(path: Path, kind: str) -> bool:
    """Whether a file begins as one of this kind; what follows is for its reader to judge."""
    try:
        next(read_lines(path, kind))
    except SpyreCiError:
        return False
    return True
