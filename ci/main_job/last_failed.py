"""What of a past run is worth running again: tests that did not pass, and files that were not collected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ci.core.text import counted, one_line
from ci.record.result import Result
from ci.record.verdict import PROBLEMS, Verdict
from ci.report.results import read_results, read_summary
from ci.report.summary import outcome_line
from ci.report.totals import Summary
from ci.runner.retries import STOPPED_BY
from ci.steps.folder import RunFolder
from test_selection.stage import file_pattern

# What a second look is worth: everything that did not simply pass, skip or fail as declared.
_LOOK_AGAIN = frozenset({*PROBLEMS, Verdict.FLAKY})


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondLook:
    """What of a run is run again.

    Attributes:
        ids: of the tests that did not pass.
        files: that could not be collected, whose tests nobody knows: each is run whole.
        said: for people, a line each.
        exit_code: where there is nothing to run again, what the command ends with: that of the run.
    """

    ids: tuple[str, ...]
    files: tuple[str, ...]
    said: tuple[str, ...]
    exit_code: int


def second_look(folder: RunFolder, named: str, patterns: Sequence[str]) -> SecondLook:
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


def choose(results: Iterable[Result], summary: Summary, named: str, patterns: Sequence[str]) -> SecondLook:
    """What of a run is run again; see `second_look`.

    Files that the run was allowed not to collect did not redden it, and are left as they are. Of a run that
    stopped for its failures, what it did not come to has not failed: that is `--resume`'s.
    """
    globs = [file_pattern(text) for text in patterns]

    def wanted(file: str) -> bool:
        return not globs or any(glob.search(file) for glob in globs)

    ids = tuple(one.id for one in results if _failed(one) and wanted(one.file))
    broken = tuple(one.file for one in summary.collect_errors if wanted(one.file))
    files = () if summary.allow_collect_errors else broken
    again = bool(ids or files)
    said = _again(ids, files) if again else _nothing(summary, named, patterns, allowed=len(broken))
    return SecondLook(ids=ids, files=files, said=said, exit_code=summary.exit_code)


def _failed(one: Result) -> bool:
    stopped = one.verdict is Verdict.NOT_RUN and one.message.endswith(STOPPED_BY)
    return one.verdict in _LOOK_AGAIN and not stopped


def _again(ids: Sequence[str], files: Sequence[str]) -> tuple[str, ...]:
    if not files:
        return ()
    first = one_line(files[0]) + (" …" if len(files) > 1 else "")
    whole = f"all tests of {counted(len(files), 'file')} that could not be collected ({first})"
    return (f"again: {counted(len(ids), 'test')}, and {whole}" if ids else f"again: {whole}",)


def _nothing(summary: Summary, named: str, patterns: Sequence[str], *, allowed: int) -> tuple[str, ...]:
    if summary.exit_code:
        within = f" in {', '.join(patterns)}" if patterns else ""
        return (f"nothing of {named} can be run again{within}, and it ended with {outcome_line(summary)}",)
    but = f" but {counted(allowed, 'file')} that could not be collected, as it was allowed" if allowed else ""
    return (f"nothing to run again: every test of {named} passed{but}",)
