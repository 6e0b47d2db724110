"""Two runs beside each other: found, read and compared, with what the history knows of their tests."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ci.core.archives import Wanted, unpack
from ci.core.errors import MissingInputError, UsageError
from ci.core.text import shell_line
from ci.record.journal_line import event_of
from ci.record.run_state import RunState
from ci.report.compare.comparison import Comparison, Side, compare_sides
from ci.report.compare.sides import side_of
from ci.report.compare.times import Past
from ci.report.history import past_seconds
from ci.report.reader import MAX_UNPACKED, REPORT_FILES, Row, read_run
from ci.report.results import RESULTS_FILE, SUMMARY_FILE
from ci.steps.context import Context
from ci.steps.folder import JOURNALS, PLAN_FILE, RunFolder, find_run
from test_selection.durations import MAX_S
from test_selection.estimates import SPREAD_AT, quantile
from test_selection.ids import encode_file

# A run of one's own has the tracebacks of all that failed.
MOST_BYTES = 8 * MAX_UNPACKED
_FROM_ARTIFACT = (
    *REPORT_FILES,
    Wanted(pattern=rf"{JOURNALS}/\d{{1,9}}-\d{{1,9}}\.jsonl", most_bytes=MAX_UNPACKED),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two runs, compared.

    Attributes:
        comparison: what it came to.
        notes: what could not be used of them, a sentence each.
    """

    comparison: Comparison[Row]
    notes: tuple[str, ...] = ()


def compare_runs(context: Context, base: str, now: str) -> Compared:
    """What one run changes against another.

    Args:
        context: the outside world.
        base: the run that is compared with: folder, id, `latest`, `latest-N` or the zip of an artifact.
        now: the run.

    Raises:
        MissingInputError: there is no such run, or it was not reported.
        BadFileError: a file of it has the wrong form.
        UsageError: both are the same run.
    """
    notes: list[str] = []
    with contextlib.ExitStack() as stack:
        there, here = (stack.enter_context(_folder(context, named)) for named in (base, now))
        if there.path == here.path:
            raise UsageError(
                f"{base!r} and {now!r} are the same run", where=here.path, remedy="name two runs"
            )
        sides = [_side(folder, named, notes) for folder, named in ((there, base), (here, now))]
    if sides[0].run == sides[1].run:
        # A CI calls the folder of each run the same.
        sides = [replace(side, run=named) for side, named in zip(sides, (base, now), strict=True)]
    found = compare_sides(sides[1], sides[0])
    return Compared(comparison=_with_past(context, found), notes=tuple(notes))


@contextlib.contextmanager
def _folder(context: Context, named: str) -> Iterator[RunFolder]:
    """A run's folder; an artifact is unpacked for as long as it is read."""
    path = Path(named)
    if path.is_file():
        with tempfile.TemporaryDirectory(prefix="spyre-ci-") as into:
            unpack(path, Path(into), _FROM_ARTIFACT, beside=SUMMARY_FILE)
            yield RunFolder(path=Path(into))
        return
    yield find_run(context.runs, named, holding=SUMMARY_FILE)


def _name(named: str, folder: RunFolder) -> str:
    return Path(named).name if Path(named).is_file() else folder.run


def _side(folder: RunFolder, named: str, notes: list[str]) -> Side[Row]:
    _must_be_reported(folder)
    told = read_run(folder.path, most_bytes=MOST_BYTES)
    if told.trouble:
        notes.append(f"{_name(named, folder)}: its catalog is not used: {told.trouble}")
    run = told.summary.run
    name = run if run == _name(named, folder) else f"{run} ({_name(named, folder)})"
    return replace(side_of(told, name=name), setups=_setups(folder.path / JOURNALS))


def _must_be_reported(folder: RunFolder) -> None:
    """Refuse a run that has not come to results.

    Raises:
        MissingInputError: it was cut off, still runs, or is no run.
    """
    if folder.summary.is_file() and folder.results.is_file():
        return
    lacking = RESULTS_FILE if folder.summary.is_file() else SUMMARY_FILE
    if (folder.path / PLAN_FILE).is_file() or folder.identity.is_file():
        raise MissingInputError(
            f"the run has no {lacking}: it still runs, was cut off, or was not reported",
            where=folder.path,
            remedy=f"finish it with `{_command('pytorch', '--resume', folder)}`, or report it as it is with "
            f"`{_command('report', '--run-dir', folder)}`",
        )
    raise MissingInputError(
        f"there is no {lacking}, so this is no run folder",
        where=folder.path,
        remedy="name a run's folder or id, `latest`, `latest-1`, or the zip of an artifact",
    )


def _command(verb: str, flag: str, folder: RunFolder) -> str:
    return shell_line(["spyre-ci", verb, flag, str(folder.path)])


def _setups(journals: Path) -> dict[str, float]:
    """By file, the median seconds of its set-ups, as far as journals tell."""
    found: dict[str, list[float]] = {}
    for path in sorted(journals.glob("*.jsonl")):
        state = RunState(shard=0, attempt=1)
        with path.open("rb") as stream:
            for line in stream:
                # Nearly every line is of a test: those are not taken apart.
                if b'"group_ready"' in line and (event := event_of(line)) is not None:
                    state.take(event)
        for group in state.groups:
            if group.setup_s is not None:
                found.setdefault(encode_file(group.file), []).append(min(group.setup_s, MAX_S))
    return {file: statistics.median(times) for file, times in found.items()}


def _with_past(context: Context, found: Comparison[Row]) -> Comparison[Row]:
    """What the history knows of the tests in question, up to the earlier of both runs.

    Later runs would excuse a test by what it has become.
    """
    starts = [one.started_at for one in (found.now, found.base) if one.started_at is not None]
    names = {one.name: found.existence.moved.get(one.name, one.name) for one in found.times.tests}
    if not names or not starts or not context.history.there:
        return found
    device = found.base.facts.get("device", "")
    wanted = sorted(set(names.values()))
    past = {
        name: Past(
            quantile(times, 1 - SPREAD_AT), statistics.median(times), quantile(times, SPREAD_AT), len(times)
        )
        for name, times in past_seconds(
            context.history, device=device, until=min(starts), names=wanted
        ).items()
    }
    return found.with_history({name: past[was] for name, was in names.items() if was in past})
