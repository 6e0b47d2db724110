"""Measured seconds and the file they travel in, and PyTorch's public class times as a prior.

The latter have the form of `test-class-times.json` on the `generated-stats` branch of pytorch/test-infra:
`{"<job>/<config>": {"<file without .py>": {"<class>": seconds}}}`.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from test_selection.errors import BadFileError, UsageError
from test_selection.files import read_json, write_json

KIND = "durations"
# Thirty years: more is no measurement.
MAX_S = 1e9
_REQUIRED = ("tests", "files")
# What PyTorch's instantiation of device-generic classes appends: the device's type in capitals.
_SUFFIX = re.compile(r"(?<=.)(?:CPU|CUDA|XPU|MPS|HPU|MTIA|META|LAZY|PRIVATEUSE1)$")
_FORMS = (
    "name exported durations, or class times as PyTorch publishes them: "
    '{"job/config": {"file": {"class": seconds}}}'
)
ClassTimes = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """What was measured, in seconds.

    Attributes:
        tests: a test's own time, by test id.
        files: what importing and collecting a file takes, by file.
        spread: the 95th percentile of a test's own times, by test id; a test may lack one.
        classes: what a whole class took elsewhere, by `file::Class` without the device's suffix.
    """

    tests: Mapping[str, float] = field(default_factory=dict)
    files: Mapping[str, float] = field(default_factory=dict)
    spread: Mapping[str, float] = field(default_factory=dict)
    classes: Mapping[str, float] = field(default_factory=dict)


def write_durations(path: Path, durations: Durations) -> None:
    """Write `durations.json`, compressed where the name ends in `.gz`; optional tables only where filled."""
    tables = {name: dict(getattr(durations, name)) for name in ("tests", "files", "spread", "classes")}
    write_json(path, KIND, {name: rows for name, rows in tables.items() if rows or name in _REQUIRED})


def read_durations(path: Path) -> Durations:
    """Read `durations.json[.gz]`.

    Raises:
        MissingInputError: there is no such file.
        BadFileError: a value is not a finite number of seconds, 0 or more.
    """
    content = read_json(path, KIND)
    names = [*_REQUIRED, *(name for name in ("spread", "classes") if name in content)]
    return Durations(**{name: _read_table(content.get(name), name, path) for name in names})


def is_seconds(value: object) -> bool:
    """Whether a value read from JSON is a finite number of seconds, 0 or more."""
    # Infinity and NaN are legal to Python's JSON reader and would poison every plan.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MAX_S


def parse_class_times(content: object, where: Path) -> ClassTimes:
    """Check a document of class times and bring its names into the form of test ids.

    A class is kept under its name and, where that ends in a device's, without it as well: whether
    `TestAutocastCPU` is a class of that name or a generated one only a catalog can tell. Where both names
    stand in the file, the greater seconds count.

    Args:
        content: what the JSON file holds.
        where: the file, for the messages.

    Returns:
        By configuration, seconds by `file.py::Class`.

    Raises:
        BadFileError: it is not of that form, or a value is not seconds of 0 or more.
    """
    found: ClassTimes = {}
    for config, files in _table(content, "the document", where).items():
        classes: dict[str, float] = {}
        for file, rows in _table(files, f"[{config!r}]", where).items():
            for name, seconds in _table(rows, f"[{config!r}][{file!r}]", where).items():
                if not is_seconds(seconds):
                    what = f"[{config!r}][{file!r}][{name!r}] is {seconds!r}, not seconds"
                    raise BadFileError(what, where=where, remedy=_FORMS)
                for one in {name, _SUFFIX.sub("", name)}:
                    key = f"{file.removesuffix('.py')}.py::{one}"
                    classes[key] = max(seconds, classes.get(key, 0.0))
        found[config] = classes
    return found


def choose_class_times(times: ClassTimes, wanted: Sequence[str], where: Path) -> dict[str, float]:
    """The seconds of one configuration, or each class's median over several.

    Args:
        times: of `parse_class_times`.
        wanted: names of configurations; empty where the file leaves no choice.
        where: the file, for the messages.

    Returns:
        Seconds by `file.py::Class`, sorted by name.

    Raises:
        UsageError: a configuration is not in the file, or there are several and none is named.
    """
    known = ", ".join(sorted(times)) or "none"
    if strangers := [name for name in wanted if name not in times]:
        raise UsageError(
            f"there is no configuration {strangers[0]!r}", where=where, remedy=f"name one of: {known}"
        )
    if not wanted and len(times) != 1:
        raise UsageError(
            f"holds class times of {len(times)} configurations",
            where=where,
            remedy=f"name one with --config, or several for the median over them: {known}",
        )
    chosen = [times[name] for name in dict.fromkeys(wanted or times)]
    names = sorted({name for one in chosen for name in one})
    return {name: statistics.median(one[name] for one in chosen if name in one) for name in names}


def _read_table(rows: object, table: str, path: Path) -> dict[str, float]:
    if not isinstance(rows, dict):
        what = f"key {table!r} is {type(rows).__name__}, not a table of seconds"
        raise BadFileError(what, where=path, remedy="export the durations again")
    for name, value in rows.items():
        if not is_seconds(value):
            raise BadFileError(
                f"{table}[{name!r}] is {value!r}, not seconds from 0 to {MAX_S:,.0f}",
                where=path,
                remedy="fix that value or export the durations again",
            )
    return rows


def _table(value: object, key: str, where: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadFileError(f"{key} is {type(value).__name__}, not a table", where=where, remedy=_FORMS)
    return value
