"""What every test shares: golden copies, and the guard that keeps unit tests inside their process."""

from __future__ import annotations

import multiprocessing.process
import os
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import HealthCheck, settings

from tests.groups import group_of

# A busy machine is slow, not wrong: no property fails for the time it took. The gate draws the same few
# examples each time, so that its answer is the same; `nox -s nightly` draws more.
_patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", _patient, max_examples=25, derandomize=True)
settings.register_profile("nightly", _patient, max_examples=500)
settings.load_profile("ci")

# Whoever runs the tests in the background has Ctrl-C ignored, by every process of theirs as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests are somebody's who types at a terminal, wherever they run; one that is of a CI says so itself.
os.environ.pop("CI", None)

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"
Golden = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--refresh-golden", action="store_true", help="rewrite tests/golden from what the code makes now"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with its golden copy, or rewrite the copy under `--refresh-golden`."""
    refresh = bool(request.config.getoption("--refresh-golden"))

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if refresh:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        if not path.is_file():
            pytest.fail(f"there is no golden copy {path}; make it with `pytest --refresh-golden`")
        kept = path.read_bytes().decode()
        assert text == kept, f"differs from {path}; if it should, run `pytest --refresh-golden`"

    return compare


@pytest.fixture(autouse=True)
def _stay_inside_the_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unit tests start no process and open no connection: what does, belongs under tests/integration."""
    if not request.path.is_relative_to(TESTS / "unit"):
        return
    for owner, name in (
        # The methods, not the classes: who imported the class by name is caught as well.
        (subprocess.Popen, "__init__"),
        (multiprocessing.process.BaseProcess, "start"),
        (socket.socket, "connect"),
        (socket.socket, "connect_ex"),
        (socket.socket, "listen"),
        *((os, name) for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system")),
    ):
        if hasattr(owner, name):
            monkeypatch.setattr(owner, name, _refuse(name))


def _refuse(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        # Not an Exception, so that no `except Exception` of the code under test can hide it.
        pytest.fail(f"a unit test called {name}: move it to tests/integration")

    return refuse


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(ids: list[str]) -> None:
    """Refuse two tests of one name: xdist would run one of them and say nothing of the other."""
    if twice := [name for name, count in Counter(ids).items() if count > 1]:
        raise pytest.UsageError(f"more than one test is called {', '.join(twice)}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Under `--dist loadscope`, deal tests by their groups, the largest first."""
    if config.getoption("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415  # only where xdist is

    class ByGroup(LoadScopeScheduling):  # type: ignore[misc]  # xdist is not typed
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return ByGroup(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where SPYRE_CI_NO_SKIP is set, as in CI, what something is missing for fails instead of skipping."""
    report = yield
    if os.environ.get("SPYRE_CI_NO_SKIP") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may skip: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,  # noqa: ARG001  # the hook's own signature
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same of a whole file."""
    report = yield
    if os.environ.get("SPYRE_CI_NO_SKIP") and report.outcome == "skipped":
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may skip: {report.longrepr}"
    return report
