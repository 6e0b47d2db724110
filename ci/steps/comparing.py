"""The sides of `select diff`: catalogs, locks, selections, run folders, and stages of the roll-out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ci.core.errors import BadFileError, MissingInputError, SpyreCiError, UsageError
from ci.steps.collecting import noted_source
from ci.steps.context import Context
from ci.steps.folder import RunFolder
from ci.steps.planning import past_durations
from ci.steps.selecting import choose, in_scope
from ci.steps.selection_lock import find_lock, stage_members
from ci.steps.share import share_of
from test_selection.catalog import KIND as CATALOG
from test_selection.catalog import read_catalog
from test_selection.difference import Side
from test_selection.files import read_lines
from test_selection.lock import KIND as LADDER
from test_selection.lock import read_lock
from test_selection.selection import read_selection


def find_side(context: Context, catalog: Path | None, named: str) -> Side:
    """A side by its name: a file, a run folder, or the number of a stage of the roll-out.

    Args:
        context: the outside world.
        catalog: what stages are taken of, where it is named.
        named: the side.

    Raises:
        MissingInputError: there is no such file or folder.
        BadFileError: it is none of these, or broken.
        UsageError: a stage is named without a catalog, or one the roll-out does not have.
    """
    path = Path(named)
    if named.isdecimal() and not path.exists():
        return _stage(context, catalog, int(named))
    if path.is_dir():
        folder = RunFolder(path=path)
        path = folder.selection if folder.selection.is_file() else folder.catalog
    if not path.is_file():
        raise MissingInputError(
            "there is no such file", where=named, remedy="name a catalog, lock, selection or run folder"
        )
    if _is(path, CATALOG):
        return Side(name=named, known=[test.id for test in read_catalog(path).tests])
    return _lock(context, named, path) if _is(path, LADDER) else _selection(named, path)


def _lock(context: Context, named: str, path: Path) -> Side:
    lock = read_lock(path)
    tests = lock.order.tests
    selected = stage_members(context, lock, tests)
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


def _stage(context: Context, named: Path | None, number: int) -> Side:
    if named is None:
        raise UsageError(
            f"stage {number} is named without a catalog",
            remedy="give --run-dir or --catalog, or the name of a file",
        )
    catalog = read_catalog(named)
    source = noted_source(context, RunFolder(path=named.parent))
    share = share_of(context, stage=number, percent=None, files=(), keyword=None, ids=())
    what = in_scope(context, catalog, source, past_durations(context, catalog.device))
    used = find_lock(context, what)
    inside = choose(context, what, replace(share, percent=100), used=used)
    chosen = choose(context, what, share, used=used)
    return Side(name=f"stage {number}", known=inside.ids, selected={"": chosen.ids})


def _is(path: Path, kind: str) -> bool:
    """Whether a file begins as one of this kind; what follows is for its reader to judge."""
    try:
        next(read_lines(path, kind))
    except SpyreCiError:
        return False
    return True
