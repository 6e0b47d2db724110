"""PyTorch's public class times: seconds of whole test classes by CI configuration, as a prior for planning.

The form is that of `test-class-times.json` on the `generated-stats` branch of pytorch/test-infra:
`{"<job>/<config>": {"<file without .py>": {"<class>": seconds}}}`.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from test_selection.durations_file import is_seconds
from test_selection.errors import BadFileError, UsageError

# What PyTorch's instantiation of device-generic classes appends: the device's type in capitals.
_SUFFIX = re.compile(r"(?<=.)(?:CPU|CUDA|XPU|MPS|HPU|MTIA|META|LAZY|PRIVATEUSE1)$")
ClassTimes = dict[str, dict[str, float]]


def parse_class_times(content: object, where: Path) -> ClassTimes:
    """Check a document of class times and bring its names into the form of canonical ids.

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
                    raise _bad(f"[{config!r}][{file!r}][{name!r}] is {seconds!r}, not seconds", where)
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
    chosen: Sequence[Mapping[str, float]] = [times[name] for name in dict.fromkeys(wanted or times)]
    names = sorted({name for one in chosen for name in one})
    return {name: statistics.median(one[name] for one in chosen if name in one) for name in names}


def _table(value: object, key: str, where: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _bad(f"{key} is {type(value).__name__}, not a table", where)
    return value


def _bad(what: str, where: Path) -> BadFileError:
    return BadFileError(
        what,
        where=where,
        remedy="name exported durations, or class times as PyTorch publishes them: "
        '{"job/config": {"file": {"class": seconds}}}',
    )
