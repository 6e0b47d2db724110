"""Full runs of the op suite on the emulated device, each in a fork with one version of the example back end.

The parent has torch and the tests, once; a child has the kernels of one source tree, runs every test and says
which fail. It is a stand-in for thousands of runs of the main job, whose tests it shares.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ci.device.environment import OP_SUITE, device_environment

TEST_S = 10


class ForkedRuns:
    def __init__(self, nodes: Mapping[str, str]) -> None:
        """Make the device and import the tests; `nodes` has the pytest node of each test id."""
        # A fault of the same size within the same second would run as the bytecode of the one before.
        sys.dont_write_bytecode = True
        os.environ.update(device_environment("spyre"))
        import torch  # noqa: PLC0415  # the parent must not have it before it is asked for

        torch.set_num_threads(1)
        from ci.device.backend import register  # noqa: PLC0415  # as torch

        register(emulate=True)
        spec = importlib.util.spec_from_file_location("test_op_suite", OP_SUITE / "test_op_suite.py")
        assert spec is not None
        assert spec.loader is not None
        self._suite: ModuleType = importlib.util.module_from_spec(spec)
        sys.modules["test_op_suite"] = self._suite
        spec.loader.exec_module(self._suite)
        self._nodes = nodes
        self.after_test: Callable[[], object] = lambda: None

    def start(self, prepare: Callable[[], None], ids: Sequence[str] | None = None) -> tuple[int, int]:
        """Begin a run in a fork; its process and the pipe by which it tells."""
        reading, writing = os.pipe()
        if (pid := os.fork()) == 0:
            os.close(reading)
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            try:
                failed = self.run_here(prepare, list(self._nodes) if ids is None else list(ids))
                with os.fdopen(writing, "w") as pipe:
                    json.dump(failed, pipe)
            finally:
                os._exit(0)
        os.close(writing)
        return pid, reading

    def run_here(self, prepare: Callable[[], None], ids: Sequence[str]) -> list[str]:
        import unittest  # noqa: PLC0415  # in the child

        try:
            prepare()
        except Exception:  # noqa: BLE001  # whatever a mutant does at import, every test fails
            return list(ids)
        signal.signal(signal.SIGALRM, _too_long)
        failed = []
        for name in ids:
            _, cls, method = self._nodes[name].split("::")
            result = unittest.TestResult()
            signal.alarm(TEST_S)
            try:
                getattr(self._suite, cls)(method.partition("[")[0])(result)
            except BaseException:  # noqa: BLE001  # the test did not end
                failed.append(name)
            else:
                if result.failures or result.errors or result.unexpectedSuccesses:
                    failed.append(name)
            finally:
                signal.alarm(0)
            self.after_test()
        return failed


def finish(pid: int, reading: int, ids: Sequence[str], timeout_s: float) -> list[str]:
    """The ids that failed; all of them where the process died or took too long."""
    parts, until = [], time.monotonic() + timeout_s
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, until - time.monotonic()))
        data = os.read(reading, 1 << 16) if ready else b""
        if not data:
            break
        parts.append(data)
    os.close(reading)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    try:
        return list(json.loads(b"".join(parts)))
    except ValueError:
        return list(ids)


def installing(folder: Path) -> Callable[[], None]:
    """What gives the device the kernels of the example back end in a folder."""

    def install() -> None:
        import torch  # noqa: PLC0415  # the parent has it

        from ci.device.fallback import Fallback  # noqa: PLC0415  # as torch
        from ci.device.refusal import make_refusal  # noqa: PLC0415  # as torch

        sys.path.insert(0, str(folder))
        for name in [one for one in sys.modules if one.partition(".")[0] == "example_backend"]:
            del sys.modules[name]
        registry: Any = importlib.import_module("example_backend.registry")
        for name in ("pointwise", "binary", "reductions", "decompositions"):
            importlib.import_module(f"example_backend.{name}")
        module: Any = getattr(torch, "spyre")  # noqa: B009  # torch has no such attribute of its own
        library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]  # torch's own
        registry.install(Fallback(make_refusal((), ()), module.default_generators[0], module.calls), library)
        _kept.append(library)

    return install


_kept: list[Any] = []


def _too_long(*_: object) -> None:
    raise TimeoutError("the test takes too long")
