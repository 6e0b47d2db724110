"""What is requested of the main job: its tests, as they are named or as a past run left them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ci.core.addresses import without_credentials
from ci.core.errors import MissingInputError, UsageError
from ci.core.text import counted, one_line
from ci.record.result import Result
from ci.record.verdict import PROBLEMS, Verdict
from ci.report.results import RESULTS_FILE, read_results, read_summary
from ci.report.summary import outcome_line
from ci.report.totals import Summary
from ci.runner.retries import STOPPED_BY
from ci.steps.change_order import ChangeRequest
from ci.steps.collect import resolve_source
from ci.steps.context import Context
from ci.steps.folder import RunFolder, find_run, noted_where, read_device
from ci.steps.select import parents
from ci.steps.share import ShareRequest
from test_selection.ids import file_of
from test_selection.stage import file_pattern

# What is worth running again: everything that did not simply pass, skip or fail as declared.
_NOT_PASSED = frozenset({*PROBLEMS, Verdict.FLAKY})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest(ShareRequest):
    """What the user asked for on the command line; None where the settings decide.

    Attributes:
        source: where the tests come from.
        last_failed: the run whose failures are run again.
        failed_first: whether what did not pass in the last run comes first.
        durations: how many of the slowest tests are told.
        relock: whether the lock of the selection order is written anew.
        dry_run: whether nothing is run.
        allow_collect_errors: whether files in scope may fail to collect.
        change: the change that orders the tests, and the budget that they are cut to.
    """

    source: str | None = None
    last_failed: str | None = None
    failed_first: bool = False
    durations: int = 0
    relock: bool = False
    dry_run: bool = False
    allow_collect_errors: bool = False
    change: ChangeRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """What of a run is run again.

    Attributes:
        ids: of the tests that did not pass.
        files: that could not be collected, whose tests nobody knows: each is run whole.
        said: for people; empty where there is nothing to say.
        exit_code: where there is nothing to run again, what the command ends with: that of the run.
    """

    ids: tuple[str, ...]
    files: tuple[str, ...]
    said: str
    exit_code: int


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
    if lf and _last_reported(context) is None:
        context.say("no earlier run: all tests run")
        return None
    return "latest" if lf else named


def _last_reported(context: Context) -> RunFolder | None:
    try:
        return find_run(context.runs, "latest", holding=RESULTS_FILE)
    except MissingInputError:
        return None


def run_again(context: Context, request: RunRequest, named: str) -> tuple[Context, RunRequest, Failures]:
    """What did not pass in a past run, on its device and from its source unless others are asked for."""
    folder = find_run(context.runs, named, holding=RESULTS_FILE)
    found = failures_of(folder, named, request.files)
    if context.settings.origins.get("device.name") != "flag" and (device := read_device(folder)):
        context = context.on_device(device)
    source = noted_where(folder) if request.source is None else request.source
    # What is named here as well narrows it down; a pattern none of it matches is no mistake.
    ids, files = found.ids, found.files
    if request.ids or request.whole_files:
        ids = tuple(one for one in ids if _is_below(one, request))
        named_files = {*request.whole_files, *map(file_of, request.ids)}
        files = tuple(one for one in files if one in named_files)
        if not ids and not files:
            context.say("none of the named tests is among those to rerun")
    return context, replace(request, source=source, files=(), ids=ids, whole_files=files), found


def failures_of(folder: RunFolder, named: str, patterns: Sequence[str] = ()) -> Failures:
    """What of a reported run is run again.

    Args:
        folder: of the run.
        named: what the user called it.
        patterns: globs or `/regex/` of the files that are wanted; none means all.

    Raises:
        UsageError: a pattern cannot be read.
        MissingInputError: the run was not reported.
        BadFileError: its results or its summary cannot be read.
    """
    return choose(read_results(folder.results), read_summary(folder.summary), named, patterns)


def choose(results: Iterable[Result], summary: Summary, named: str, patterns: Sequence[str]) -> Failures:
    """What of a run is run again; see `failures_of`.

    Files that the run was allowed not to collect did not redden it, and are left as they are. Of a run that
    stopped for its failures, what it did not come to has not failed: that is `--resume`'s.
    """
    globs = [file_pattern(text) for text in patterns]

    def wanted(file: str) -> bool:
        return not globs or any(glob.search(file) for glob in globs)

    ids = tuple(one.id for one in results if _failed(one) and wanted(one.file))
    broken = tuple(one.file for one in summary.collect_errors if wanted(one.file))
    files = () if summary.allow_collect_errors else broken
    said = ""
    if files:
        first = one_line(files[0]) + (" …" if len(files) > 1 else "")
        tests = f"{counted(len(ids), 'test')}, and " if ids else ""
        whole = f"all tests of {counted(len(files), 'file')} that could not be collected"
        said = f"rerun: {tests}{whole} ({first})"
    elif not ids and summary.exit_code:
        within = f" in {', '.join(patterns)}" if patterns else ""
        said = f"nothing of {named} can be rerun{within}, and it ended with {outcome_line(summary)}"
    elif not ids:
        allowed = f" but {counted(len(broken), 'file')} that could not be collected, as it was allowed"
        said = f"nothing to rerun: every test of {named} passed{allowed if broken else ''}"
    return Failures(ids=ids, files=files, said=said, exit_code=summary.exit_code)


def _failed(one: Result) -> bool:
    stopped = one.verdict is Verdict.NOT_RUN and one.message.endswith(STOPPED_BY)
    return one.verdict in _NOT_PASSED and not stopped


def failed_before(context: Context, planned: Collection[str]) -> frozenset[str]:
    """Which planned tests did not pass in the last run; none where there was none yet.

    Raises:
        UsageError: the run is shared.
    """
    if share := context.settings.model.run.share:
        raise UsageError(
            "--ff is given, and hosts that share a run need the same plan "
            f"(run.share: {without_credentials(share)})",
            remedy="leave --ff out",
        )
    folder = _last_reported(context)
    if folder is None:
        return frozenset()
    first = frozenset(failures_of(folder, folder.run).ids).intersection(planned)
    context.detail(f"run first: {counted(len(first), 'test')} that did not pass in {folder.run}")
    return first


def in_tree(context: Context, request: RunRequest) -> RunRequest:
    """The same with paths from the root or from here as paths from the tests' folder.

    Raises:
        UsageError: one lies elsewhere.
    """
    names = (*request.whole_files, *request.ids)
    if not any(_from_elsewhere(name) or _path(name).is_file() for name in names):
        return request
    where = request.source
    if where is None and request.last_failed is not None:
        where = noted_where(find_run(context.runs, request.last_failed, holding=RESULTS_FILE))
    tests = resolve_source(context, where).tests.resolve()

    def inside(name: str) -> str:
        path, below = _path(name).resolve(), name.split("::", 1)[1:]
        if not _from_elsewhere(name) and not (path.is_file() and path.is_relative_to(tests)):
            return name
        if not path.is_relative_to(tests):
            raise UsageError(
                f"{str(_path(name))!r} is not in the tests' folder",
                where=tests,
                remedy="name it relative to that folder, or name its tree with --pytorch-src",
            )
        return "::".join([path.relative_to(tests).as_posix(), *below])

    return replace(
        request, ids=tuple(map(inside, request.ids)), whole_files=tuple(map(inside, request.whole_files))
    )


def _path(name: str) -> Path:
    return Path(name.partition("::")[0])


def _from_elsewhere(name: str) -> bool:
    path = _path(name)
    return path.is_absolute() or ".." in path.parts


def _is_below(name: str, request: RunRequest) -> bool:
    """Whether a test is one of those that are named, or below one."""
    return file_of(name) in request.whole_files or not set(request.ids).isdisjoint(parents(name))
