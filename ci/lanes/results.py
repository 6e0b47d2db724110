"""The folders of runs that came back: what is taken of one, and what it says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from ci.errors import EXIT_INCOMPLETE, SpyreCiError
from ci.lanes.remote import Brought
from ci.pipeline.told import REPORT_FILES, read_told
from ci.pipeline.unpack import Wanted
from ci.report.results import RESULTS_FILE, SUMMARY_FILE

FOLDER = "results"
MAX_RUNS = 20
# What files take to set up is in the journals.
WANTED = (*REPORT_FILES, Wanted(pattern=r"journal/\d{1,6}-\d{1,12}\.jsonl", most_bytes=256 << 20))


def limit_of(path: str) -> int | None:
    """The bytes that a file of a run's folder may have; None where it is not taken."""
    return next((one.most_bytes for one in WANTED if re.fullmatch(one.pattern, path)), None)


def brought_of(folder: Path, names: list[str], fetch: Callable[[str, Path], bool]) -> Brought:
    """Fetch runs into a folder, and read what they say.

    What is broken for good is noted, and leaves the whole incomplete; what does not come now raises.

    Args:
        folder: of the attempt.
        names: of runs, as the far side has them.
        fetch: brings the run of a name into a folder; False: there is none.

    Raises:
        SpyreCiError: the far side is away.
    """
    codes, runs, notes = [], [], []
    for number, name in enumerate(names[:MAX_RUNS]):
        into = folder / FOLDER / str(number)
        try:
            if not fetch(name, into):
                continue
            codes.append(read_told(into).exit_code)
        except SpyreCiError as error:
            if error.exit_code == EXIT_INCOMPLETE:
                raise
            codes.append(EXIT_INCOMPLETE)  # it may have held what is red
            notes.append(f"results of {name:.80} cannot be used: {error.what}")
        else:
            runs.append(into)
    if len(names) > MAX_RUNS:
        codes.append(EXIT_INCOMPLETE)
        notes.append(f"of {len(names):,} results only {MAX_RUNS} were brought")
    return Brought(codes=codes, runs=runs, notes=notes)


def roots_of(files: list[str]) -> list[str]:
    """The folders, with their last slash, that hold a whole report among archived files."""
    there = {one for one in files if ".." not in one.split("/")}
    found = [one[: -len(SUMMARY_FILE)] for one in there if one.rpartition("/")[2] == SUMMARY_FILE]
    return sorted(one for one in found if f"{one}{RESULTS_FILE}" in there)
