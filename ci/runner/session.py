"""One pytest session over one test file, inside a forked child: the arguments, the ids, the outcome."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ci.runner.instantiation import Parts, parts_of
from test_selection.ids import canonical_id, resolve_clashes

# Set where the conftest.py files of the tests' folder count.
OWN_CONFTEST = "SPYRE_CI_OWN_CONFTEST"
# A module that other test files import may hold thousands of generated tests; names suffice.
# The last two turn what Python prints by itself into warnings, and collect garbage five times at the end.
_WITHOUT = (
    "terminal", "cacheprovider", "faulthandler", "capture", "threadexception", "unraisableexception",
)  # fmt: skip


def run_pytest(tests: Path, file: str, plugin: object, *, collect_only: bool, debugger: bool = False) -> int:
    """Run pytest on one file.

    PyTorch's own conftest.py and ini file are left alone: they belong to another pytest and report
    elsewhere; the conftest.py files of other projects count. Output is not captured by pytest but goes to
    the worker's log, where it outlives a crash.

    Args:
        tests: the folder the file is named relative to; it becomes the working folder.
        file: the test file, relative to `tests`.
        plugin: receives pytest's hooks.
        collect_only: collect and run nothing.
        debugger: stop in pdb where a test fails, at a terminal.

    Returns:
        pytest's exit code.
    """
    os.chdir(tests)
    for variable in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):  # of the user's own pytest
        os.environ.pop(variable, None)
    # As `python test_x.py` and `python -m pytest` have it: files import their neighbours and their folder's.
    for folder in (tests, (tests / file).parent):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    arguments = [
        *(["--pdb", "-v"] if debugger else (f"-pno:{name}" for name in _WITHOUT)),
        *([f"--confcutdir={tests}"] if os.environ.get(OWN_CONFTEST) else ["--noconftest"]),
        f"-c{os.devnull}",
        f"--rootdir={tests}",
        "--import-mode=prepend",
        "-Wignore::pytest.PytestWarning",
        *(["--collect-only"] if collect_only else []),
        str(tests / file),
    ]
    return int(pytest.main(arguments, plugins=[plugin]))


def could_not_read(tests: Path, file: str) -> str:
    """Why pytest found nothing it could read where the file is named."""
    if (tests / file).is_file():
        return "pytest cannot take its name; names with `::` or `[` mean a test within a file"
    return "the file is gone"


def identify(items: Sequence[pytest.Item], file: str) -> tuple[list[tuple[str, Parts]], list[str]]:
    """The canonical id and parts of each item, in source order, and the ids that clashed."""
    parts = [_parts(item) for item in items]
    ids, clashes = resolve_clashes([canonical_id(file, one.cls, one.template, one.params) for one in parts])
    return list(zip(ids, parts, strict=True)), clashes


def last_line(report: Any) -> str:
    """The line of a failure that names the exception.

    It is the first line of the exception's own message where pytest took the traceback apart (PyTorch
    appends advice below it), else the last line of the text that says something.
    """
    crash = getattr(getattr(report, "longrepr", None), "reprcrash", None)
    if crash is not None and (said := crash.message.strip()):
        return str(said.splitlines()[0])
    text = str(getattr(report, "longreprtext", "") or report)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line[1:].strip() for line in lines if line.startswith("E ")]
    return (errors or lines or ["unknown error"])[-1]


def _parts(item: pytest.Item) -> Parts:
    name = getattr(item, "originalname", None) or item.name
    cls = getattr(item, "cls", None)
    callspec = getattr(item, "callspec", None)
    # PyTorch's TestCase wraps the method on each instance, so the class is asked.
    function = getattr(item, "obj", None) if cls is None else getattr(cls, name, None)
    return parts_of(function, cls, name, callspec.params if callspec is not None else {})
