"""One pytest session over one file, inside a child: arguments, ids, logs, what is left out; collecting it."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
import types
import unittest
import weakref
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ci.runner.collect import KIND
from ci.runner.instantiation import Parts, parts_of
from test_selection.files import read_bounded, write_json
from test_selection.ids import canonical_id, resolve_clashes, without_clash

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
    return "the file was removed"


def identify(items: Sequence[pytest.Item], file: str) -> tuple[list[tuple[str, Parts]], list[str]]:
    """The test id and parts of each item, in source order, and the ids that clashed."""
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


_WRITING = os.O_WRONLY | os.O_RDWR
# pytest's own marks say how it runs a test, not what the test is about.
_PYTEST_MARKS = frozenset(
    {"parametrize", "usefixtures", "filterwarnings", "skip", "skipif", "xfail", "tryfirst", "trylast"}
)


class CollectPlugin:
    """Takes the items of a collection, and the error of a file that could not be imported."""

    def __init__(self) -> None:
        self.items: list[pytest.Item] = []
        self.error: str | None = None
        self.detail = ""
        self.note: str | None = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep the first failure, or why a whole file skips itself."""
        if report.failed and self.error is None:
            self.error = last_line(report)
            self.detail = report.longreprtext
        elif report.skipped and isinstance(report.longrepr, tuple):
            self.note = str(report.longrepr[2])

    def pytest_internalerror(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Tell a file that ends the process on purpose (`sys.exit(0)`: nothing to run here) from a fault."""
        if isinstance(excinfo.value, SystemExit) and excinfo.value.code is False:
            # `unittest.main()` ends with False where all passed: the file has tests, and they are not had.
            self.error = "runs its own tests when it is imported: unittest.main() stands without a guard"
            self.detail = str(excinfo.getrepr(style="short"))
        elif isinstance(excinfo.value, SystemExit) and not excinfo.value.code:
            self.note = "ends itself with code 0 when it is imported"
        elif self.error is None:
            self.error = excinfo.exconly().strip().splitlines()[-1]
            self.detail = str(excinfo.getrepr(style="short"))

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """A file that ends the session as Ctrl-C would: its tests are not had."""
        if self.error is None:
            self.error = f"ended the session: {excinfo.exconly().strip()}"
            self.detail = str(excinfo.getrepr(style="short"))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Keep the items."""
        self.items = list(session.items)


def collect_file(spec: Mapping[str, Any]) -> int:
    """Collect `spec["file"]` below `spec["tests"]` and write the result to `spec["out"]`.

    The result holds the tests in source order, the seconds it took to import and collect, the error if
    there was one, and the modules and data files of the tree that were read on the way.
    """
    tests, file = Path(spec["tests"]), str(spec["file"])
    started = time.perf_counter()
    opened = note_opened_files()
    plugin = CollectPlugin()
    code = run_pytest(tests, file, plugin, collect_only=True)
    if code == pytest.ExitCode.USAGE_ERROR and plugin.error is None:
        plugin.error = could_not_read(tests, file)
    collect_s = time.perf_counter() - started
    named, clashes = identify(plugin.items, file)
    rows = [
        {
            "id": name,
            "node": item.nodeid,
            "class": parts.cls,
            "template": parts.template,
            "op": parts.op,
            "dtype": parts.dtype,
            **({"markers": marks} if (marks := markers_of(item)) else {}),
        }
        for item, (name, parts) in zip(plugin.items, named, strict=True)
    ]
    content = {
        "file": file,
        "collect_s": round(collect_s, 3),
        "error": plugin.error,
        "detail": plugin.detail,
        "note": plugin.note,
        "clashes": clashes,
        "modules": _tree_files(tests.parent, opened),
        "tests": rows,
    }
    write_json(Path(spec["out"]), KIND, content)
    return 0


def markers_of(item: pytest.Item) -> list[str]:
    """The names of an item's marks, its class's and module's included, sorted; pytest's own left out."""
    return sorted({mark.name for mark in item.iter_markers()} - _PYTEST_MARKS)


def note_opened_files() -> set[str]:
    """From now on, every file this process opens for reading is in the set that is returned.

    A file's tests may depend on data: a list of known failures, say. There is no way to end this.
    """
    opened: set[str] = set()

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str) and not arguments[2] & _WRITING:
            opened.add(os.path.abspath(arguments[0]))  # noqa: PTH100  # the working folder of this moment

    sys.addaudithook(hook)
    return opened


def _tree_files(root: Path, opened: set[str]) -> list[str]:
    """The files below `root` that this process imported or opened, relative to it."""
    prefix = f"{root}/"
    modules = {str(getattr(module, "__file__", None) or "") for module in list(sys.modules.values())}
    names = {name.removeprefix(prefix) for name in modules | opened if name.startswith(prefix)}
    return sorted(name for name in names if "__pycache__" not in name and (root / name).is_file())


PLUGIN = "logging-plugin"
FIXTURE = "caplog"


class _Printed(logging.Handler):
    """Warnings and errors go where prints go, and outlive a crash."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._stream = sys.stderr  # what a test puts in its place is to hold what that test expects

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record; a call that cannot be formatted fails its test, as under pytest."""
        text = self.format(record)
        with contextlib.suppress(OSError, ValueError):  # a test closed it
            self._stream.write(f"{text}\n")


def print_logs(session: pytest.Session, file: Path) -> bool:
    """Take pytest's handlers away and print what is logged, unless a test wants to look at it.

    Args:
        session: before its first test.
        file: the test file; it may ask for the fixture by name while a test runs.

    Returns:
        Whether that was done.
    """
    manager = session.config.pluginmanager
    if any(FIXTURE in getattr(item, "fixturenames", ()) for item in session.items) or _names(file):
        return False
    if manager.has_plugin(PLUGIN):
        manager.unregister(name=PLUGIN)
    logging.getLogger().addHandler(_Printed())
    return True


def _names(file: Path) -> bool:
    try:
        return FIXTURE.encode() in read_bounded(file)
    except OSError:
        return True


# A file of PyTorch's may hold 25,000 generated tests of which a stage runs one in twenty. pytest makes an
# item and an instance of its class for each, and that is most of what setting such a file up costs. What
# carries `__test__ = False` it passes by.
# What was wanted of the classes seen so far, and what was passed by: one function may be tests of several.
_WANTED: weakref.WeakSet[types.FunctionType] = weakref.WeakSet()
_PASSED_BY: weakref.WeakSet[types.FunctionType] = weakref.WeakSet()


def wanted_names(ids: Collection[str]) -> frozenset[str]:
    """The test ids without the numbers of clashes: where one of several alike is wanted, all stay."""
    return frozenset(map(without_clash, ids))


def leave_out(cls: object, file: str, wanted: Collection[str]) -> int:
    """Have pytest pass by what a test class defines itself and nobody wants; how many that are.

    A class that others inherit from is left alone, for what is not wanted of it may be wanted of them. A
    function that is several tests, here or in another class, stays where one of them is wanted.

    Args:
        cls: what a module holds; anything but a class of unittest's is left alone.
        file: the test file, as test ids name it.
        wanted: what `wanted_names` gave.
    """
    if not isinstance(cls, type) or not issubclass(cls, unittest.TestCase) or cls.__subclasses__():
        return 0
    unwanted = []
    for name, function in vars(cls).items():
        if not name.startswith("test") or not isinstance(function, types.FunctionType):
            continue
        parts = parts_of(function, cls, name, {})
        if canonical_id(file, parts.cls, parts.template, parts.params) in wanted:
            _WANTED.add(function)
            if function in _PASSED_BY:  # pytest looks into a module's classes once it has seen all of them
                _PASSED_BY.remove(function)
                del function.__test__  # type: ignore[attr-defined]  # pytest's own convention
        else:
            unwanted.append(function)
    passed_by = {function for function in unwanted if function not in _WANTED}
    for function in passed_by:
        function.__test__ = False  # type: ignore[attr-defined]  # pytest's own convention
        _PASSED_BY.add(function)
    return len(passed_by)
