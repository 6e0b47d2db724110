"""What is asked of the main job: its tests, as they are named or as a past run left them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from ci.core.addresses import without_credentials
from ci.core.errors import MissingInputError, UsageError
from ci.core.text import counted
from ci.main_job.last_failed import SecondLook, second_look
from ci.report.results import RESULTS_FILE
from ci.steps.collect import resolve_source
from ci.steps.context import Context
from ci.steps.folder import find_run, read_device, read_source
from ci.steps.select import parents
from test_selection.ids import file_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the user asked for on the command line; None where the settings decide.

    `whole_files` are those that are named, and what a past run could not collect.
    """

    source: str | None = None
    stage: int | None = None
    percent: float | None = None
    by: str | None = None
    files: tuple[str, ...] = ()
    keyword: str | None = None
    ids: tuple[str, ...] = ()
    whole_files: tuple[str, ...] = ()
    bucket: str | None = None
    last_failed: str | None = None
    failed_first: bool = False
    durations: int = 0
    relock: bool = False
    dry_run: bool = False
    allow_collect_errors: bool = False


def last_failed_of(context: Context, named: str | None, *, lf: bool) -> str | None:
    """The run whose failures are run again; None runs all, as `--lf` does where no run was before.

    Raises:
        UsageError: it is named by both flags, or the name is empty.
    """
    if lf and named is not None:
        raise UsageError(f"--lf and --last-failed {named} are given", remedy="give one of them")
    if named == "":
        raise UsageError(
            "--last-failed is empty", remedy="name a run's folder or id, or give `latest` for the last run"
        )
    if not lf:
        return named
    try:
        find_run(context.runs, "latest", holding=RESULTS_FILE)
    except MissingInputError:
        context.say("no earlier run: all tests run")
        return None
    return "latest"


def run_again(context: Context, wanted: Wanted, named: str) -> tuple[Context, Wanted, SecondLook]:
    """What did not pass in a past run, on its device and from its source unless others are asked for."""
    runs = context.runs
    folder = find_run(runs, named, holding=RESULTS_FILE)
    look = second_look(folder, named, wanted.files)
    if context.settings.origins.get("device.name") != "flag" and (device := read_device(folder)):
        context = context.on_device(device)
    source = wanted.source
    if source is None and folder.source.is_file():
        source = read_source(folder)[0]
    # What is named here as well narrows it down; a pattern none of it matches is no mistake.
    ids, whole_files = look.ids, look.files
    if wanted.ids or wanted.whole_files:
        ids = tuple(one for one in ids if _is_below(one, wanted))
        files_named = {*wanted.whole_files, *map(file_of, wanted.ids)}
        whole_files = tuple(one for one in whole_files if one in files_named)
        if not ids and not whole_files:
            context.say("none of the named tests is among them")
    files = ()
    return context, replace(wanted, source=source, files=files, ids=ids, whole_files=whole_files), look


def failed_before(context: Context, planned: Collection[str]) -> frozenset[str]:
    """Which planned tests did not pass in the last run; none where there was none yet.

    Raises:
        UsageError: the run is shared.
    """
    if share := context.settings.model.run.share:
        raise UsageError(
            "--ff is given, and hosts that share a run cut its plan alike "
            f"(run.share: {without_credentials(share)})",
            remedy="leave --ff out",
        )
    try:
        folder = find_run(context.runs, "latest", holding=RESULTS_FILE)
    except MissingInputError:
        return frozenset()
    first = frozenset(second_look(folder, folder.run, ()).ids).intersection(planned)
    context.detail(f"first: {counted(len(first), 'test')} that did not pass in {folder.run}")
    return first


def in_tree(context: Context, wanted: Wanted) -> Wanted:
    """The same with paths from the root or from here as paths from the tests' folder.

    Raises:
        UsageError: one lies elsewhere.
    """
    if not any(_from_elsewhere(name) or _path(name).is_file() for name in (*wanted.whole_files, *wanted.ids)):
        return wanted
    where = wanted.source
    if where is None and wanted.last_failed is not None:
        folder = find_run(context.runs, wanted.last_failed, holding=RESULTS_FILE)
        where = read_source(folder)[0] if folder.source.is_file() else None
    tests = resolve_source(context, where).tests.resolve()

    def inside(name: str) -> str:
        path, below = _path(name).resolve(), name.split("::", 1)[1:]
        if not _from_elsewhere(name) and not (path.is_file() and path.is_relative_to(tests)):
            return name
        if not path.is_relative_to(tests):
            raise UsageError(
                f"{str(_path(name))!r} does not lie in the tests",
                where=tests,
                remedy="name it as it is called from that folder, or its tree with --pytorch-src",
            )
        return "::".join([path.relative_to(tests).as_posix(), *below])

    return replace(
        wanted, ids=tuple(map(inside, wanted.ids)), whole_files=tuple(map(inside, wanted.whole_files))
    )


def _path(name: str) -> Path:
    return Path(name.partition("::")[0])


def _from_elsewhere(name: str) -> bool:
    path = _path(name)
    return path.is_absolute() or ".." in path.parts


def _is_below(name: str, wanted: Wanted) -> bool:
    """Whether a test is one of those that are named, or below one."""
    return file_of(name) in wanted.whole_files or not set(wanted.ids).isdisjoint(parents(name))
