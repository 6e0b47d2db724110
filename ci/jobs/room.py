"""Whose journals a run folder holds: it may have the same name every night, and the plan its fingerprint.

What is gathered is noted with its job. What is there of another one, or of nobody that is known, is moved out
of the way before: it is no word of this run.
"""

from __future__ import annotations

from pathlib import Path

from ci.core.errors import BadFileError
from ci.jobs.record import HERE, JobRecord
from test_selection.files import read_json, write_json

KIND = "gathered"
FILE = "gathered.json"
EARLIER = "earlier"
# Folders of a run folder that gathering fills.
FILLED = ("journal", "logs", "control")


def make_room(folder: Path, run: str, record: JobRecord | None) -> Path | None:
    """Move away what was gathered of another job, and note whose it is from here on.

    Args:
        folder: the run's; nobody else works in it.
        run: as the store knows it.
        record: of the job; None where nobody noted it.

    Returns:
        Where it was moved; None: there was nothing to move.
    """
    # A job that ran on this machine is another than the cluster's of the same run.
    whose = {"run": run, "namespace": HERE if record is None else record.namespace}
    if _noted(folder) == whose:
        return None
    there = [name for name in FILLED if (folder / name).is_dir() and any((folder / name).iterdir())]
    into = _new_folder(folder / EARLIER) if there else None
    for name in there:
        assert into is not None  # noqa: S101  # for mypy: it is made where there is something
        (folder / name).rename(into / name)
    write_json(folder / FILE, KIND, whose)
    return into


def _noted(folder: Path) -> dict[str, str] | None:
    if not (folder / FILE).is_file():
        return None
    try:
        content = read_json(folder / FILE, KIND)
    except BadFileError:
        return None  # nobody knows whose it is
    return {name: str(value) for name, value in content.items() if name != "schema"}


def _new_folder(among: Path) -> Path:
    among.mkdir(exist_ok=True)
    number = 1
    while (path := among / str(number)).exists():
        number += 1
    path.mkdir()
    return path
