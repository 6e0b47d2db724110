"""Inside a child: collect one test file and write down what it holds."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ci.runner.collect_cache import KIND
from ci.runner.session import could_not_read, identify, last_line, run_pytest
from test_selection.files import write_json

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
