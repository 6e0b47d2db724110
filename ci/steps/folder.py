"""The run folder: the name of each file that flows from step to step."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ci.core.errors import MissingInputError
from ci.record.identity import FILE as IDENTITY_FILE
from ci.record.identity import read_identity
from ci.record.reproduction import FILE as BROUGHT_BACK
from ci.report.results import RESULTS_FILE, SUMMARY_FILE
from test_selection.files import convert, read_json, write_json

SOURCE_KIND = "source"
CATALOG_FILE = "catalog.jsonl.gz"
DURATIONS_FILE = "durations.json.gz"
SELECTION_FILE = "selection.json"
PLAN_FILE = "plan.json"
JOURNALS = "journal"
CONTROL = "control"
_LATEST = re.compile(r"latest(?:-(\d{1,6}))?")


class _File:
    """A path within a run folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: RunFolder, _: type[RunFolder]) -> Path:
        return folder.path / self._name


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """A run's folder; its name is the readable run id.

    Attributes:
        path: of the folder.
        catalog: every collected test.
        selection: the tests of the stage.
        plan: the shards.
        durations: the seconds the plan was made with.
        source: where the tests came from.
        identity: who the run is.
        results: what became of each test.
        summary: the counts.
        report: the page for people.
    """

    path: Path
    catalog = _File(CATALOG_FILE)
    selection = _File(SELECTION_FILE)
    plan = _File(PLAN_FILE)
    durations = _File(DURATIONS_FILE)
    source = _File("source.json")
    identity = _File(IDENTITY_FILE)
    results = _File(RESULTS_FILE)
    summary = _File(SUMMARY_FILE)
    report = _File("report.html")

    @property
    def run(self) -> str:
        """The readable run id."""
        return self.path.name

    @property
    def control(self) -> RunFolder:
        """Where what failed ran once more on the control device, with journals of the same plan."""
        return RunFolder(path=self.path / CONTROL)


def new_run_folder(runs: Path, *, device: str, label: str, epoch_s: float) -> RunFolder:
    """Make the folder of a new run; its name sorts by time and is never taken twice.

    Args:
        runs: the folder that holds the runs.
        device: the device under test.
        label: what share runs, such as `stage1`.
        epoch_s: now, in seconds since the epoch.
    """
    stamp = datetime.fromtimestamp(epoch_s, UTC).strftime("%Y%m%d-%H%M%S")
    runs.mkdir(parents=True, exist_ok=True)
    for number in range(1, 1000):
        name = f"{stamp}-{device}-{label}" + (f"-{number}" if number > 1 else "")
        try:
            (runs / name).mkdir()
        except FileExistsError:
            continue
        return RunFolder(path=runs / name)
    raise MissingInputError("a thousand runs started in this second", where=runs, remedy="wait a second")


def find_run(runs: Path, named: str, *, holding: str) -> RunFolder:
    """The folder of a past run: a path, a run id, `latest`, or `latest-1` for the one before that.

    Args:
        runs: the folder that holds the runs.
        named: what the user called it.
        holding: what the latest has to hold: a dry run, or one that ended early, lacks later files.

    Raises:
        MissingInputError: there is no such run.
    """
    if latest := _LATEST.fullmatch(named):
        return _latest(runs, int(latest[1] or 0), holding)
    for candidate in (Path(named), runs / named):
        if candidate.is_dir():
            return RunFolder(path=candidate.resolve())
    raise MissingInputError(
        f"there is no run {named!r}", where=runs, remedy="name a folder below it, a path, or `latest`"
    )


def _latest(runs: Path, back: int, holding: str) -> RunFolder:
    """The latest run, or the one so many before it.

    Raises:
        MissingInputError: there are not so many.
    """
    past = [
        path
        for path in runs.glob(f"*/{IDENTITY_FILE}")
        if (path.parent / holding).exists() and not (path.parent / BROUGHT_BACK).exists()
    ]
    if len(past) > back:
        # By time, not by name: a folder may be called anything, and `-10` sorts before `-2`.
        past.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
        return RunFolder(path=past[back].parent)
    if past:
        raise MissingInputError(
            f"there is no run latest-{back}: only {len(past)} with {holding}",
            where=runs,
            remedy="name a run's folder or id",
        )
    raise MissingInputError(f"there is no run with {holding} yet", where=runs, remedy="run one first")


def find_plan(runs: Path, named: str) -> Path:
    """A plan by its own path, or that of a run.

    Raises:
        MissingInputError: there is neither such a file nor such a run.
    """
    path = Path(named)
    return path.resolve() if path.is_file() else find_run(runs, named, holding=PLAN_FILE).plan


def read_device(folder: RunFolder) -> str | None:
    """The device the run was begun on; None where only a plan was handed on."""
    return read_identity(folder.path).device if folder.identity.is_file() else None


@dataclass(frozen=True, kw_only=True)
class NotedSource:
    """Where a run's tests came from.

    Attributes:
        where: as it was named; None: the embedded op suite.
        sha: of the commit, or of what `files` hold.
        files: those that the SHA is the hash of; none where it is a commit's.
    """

    where: str | None = None
    sha: str = ""
    files: list[str] = field(default_factory=list)


def write_source(folder: RunFolder, *, where: str | None, sha: str, files: Sequence[str] = ()) -> None:
    """Note where the tests come from, for steps that run later or elsewhere."""
    write_json(folder.source, SOURCE_KIND, {"where": where, "sha": sha, "files": list(files)})


def read_source(folder: RunFolder) -> NotedSource | None:
    """What `write_source` noted; None where nobody did."""
    if not folder.source.exists():
        return None
    content = read_json(folder.source, SOURCE_KIND)
    return convert(
        content, NotedSource, where=folder.source, remedy="delete it, and name --pytorch-src again"
    )


def noted_where(folder: RunFolder) -> str | None:
    """Where a run's tests came from, as it was named; None: the op suite, or nobody noted it."""
    noted = read_source(folder)
    return None if noted is None else noted.where
