"""A plan that is run once more: a run of its own, with another identity and the same shards."""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from ci.core.errors import UsageError
from ci.jobs.record import FILE as RECORD_FILE
from ci.record.identity import FILE as IDENTITY_FILE
from ci.record.identity import read_identity, write_identity
from ci.report.results import RESULTS_FILE, SUMMARY_FILE
from ci.report.write import MARKDOWN_FILE, PAGE_FILE
from ci.steps.context import Context
from ci.steps.folder import RunFolder

# What an earlier run of the plan came to.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_ITS_OWN = {RECORD_FILE, IDENTITY_FILE, RESULTS_FILE, SUMMARY_FILE, MARKDOWN_FILE, PAGE_FILE}


def check_run(run: str | None) -> None:
    """Refuse the id of a run that is no name of a folder.

    Raises:
        UsageError: it is none.
    """
    if run is not None and not _ID.fullmatch(run):
        raise UsageError(
            f"--run is {run!r:.100}", remedy="give letters, digits, dots, - and _, at most 128 of them"
        )


def once_more(context: Context, planned: RunFolder, run: str) -> RunFolder:
    """The folder of a run of a plan, by the run's id; again it is the one that was made (law 6).

    Args:
        context: the outside world.
        planned: the folder with the plan; itself where it is this run's.
        run: the id.
    """
    if run == planned.run:
        return planned
    folder = RunFolder(path=context.runs / run)
    if folder.plan.is_file():
        return folder
    now = context.clock()
    identity = replace(read_identity(planned.path), run=run, run_id=max(int(now), 1), started_at=now)
    # Whole or not at all: a plan without its identity would be somebody else's run.
    with tempfile.TemporaryDirectory(prefix=f".{run}-", dir=context.runs) as made:
        half = Path(made) / "run"
        half.mkdir()
        for file in planned.path.iterdir():
            if file.is_file() and file.name not in _ITS_OWN:
                shutil.copyfile(file, half / file.name)
        write_identity(half, identity)
        if not folder.path.exists():
            half.rename(folder.path)
    return folder
