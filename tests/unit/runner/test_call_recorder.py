from __future__ import annotations

import sys
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ci.runner.call_recorder import TRACE_FUNCTIONS, CallRecorder


class Device:
    """Says what was called since it was last asked, as the module of a device does."""

    def __init__(self, *called: str) -> None:
        self.called = list(called)

    def take_calls(self) -> list[str]:
        called, self.called = self.called, []
        return called


class Case(unittest.TestCase):
    pass


class Other(unittest.TestCase):
    pass


class Plain:
    pass


def test_a_test_called_what_it_its_class_and_its_file_called() -> None:
    device = Device("file")
    recorder = CallRecorder(device.take_calls)
    told = []
    for of_class, fixtures, body in (
        (Case, ["module"], ["a"]),
        (Other, ["class"], ["b"]),
        (Other, [], ["c"]),
        (Plain, ["fixture"], ["d"]),
        (None, [], []),
    ):
        device.called = fixtures
        recorder.set_up(of_class)
        device.called = body
        told.append(recorder.of_test()[1])

    assert told == [
        ["a", "file", "module"],
        ["b", "class", "file", "module"],
        ["c", "class", "file", "module"],
        ["d", "file", "fixture", "module"],
        ["file", "fixture", "module"],
    ]


def test_a_set_is_told_once() -> None:
    device = Device()
    recorder = CallRecorder(device.take_calls)
    keys = []
    for called in (["b", "a"], ["a", "b", "a"], ["a"]):
        recorder.set_up(None)
        device.called = called
        keys.append(recorder.of_test())

    assert keys[0] == (keys[1][0], ["a", "b"])
    assert keys[1][1] is None
    assert keys[2][0] != keys[0][0]
    assert len(f',"ops":"{keys[0][0]}"') <= 20  # what a journal spends on a test


def test_a_device_that_does_not_say_what_is_called_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = SimpleNamespace(_get_privateuse1_backend_name=lambda: "acme")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(_C=backend, acme=SimpleNamespace()))
    assert CallRecorder.of_this_process({}) is None

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(_C=backend, acme=Device("x")))
    recorder = CallRecorder.of_this_process({})
    assert recorder is not None
    assert recorder.of_test()[1] == ["x"]

    monkeypatch.delitem(sys.modules, "torch")
    assert CallRecorder.of_this_process({}) is None


def test_functions_of_torch_are_noted_by_the_function_at_module_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    norm = "def norm(x):\n    def inner(): return x\n    return inner()\n"
    source = f"{norm}class Layer:\n    def run(self): norm(1)\n"
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/functional.py").write_text(source, encoding="utf-8")
    names: dict[str, Any] = {}
    exec(compile(source, str(tmp_path / "torch/functional.py"), "exec"), names)  # noqa: S102  # stands for torch
    backend = SimpleNamespace(_get_privateuse1_backend_name=lambda: "acme")
    torch = SimpleNamespace(_C=backend, __file__=str(tmp_path / "torch/__init__.py"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    before = sys.getprofile()
    try:
        recorder = CallRecorder.of_this_process({TRACE_FUNCTIONS: "1"})
        assert recorder is not None
        recorder.set_up(None)
        names["Layer"]().run()
        sys.setprofile(None)  # as a test of a profiler does
        first = recorder.of_test()[1]
        recorder.set_up(None)
        names["norm"](1)
        second = recorder.of_test()[1]
    finally:
        sys.setprofile(before)

    assert first == ["torch/functional.py:Layer.run", "torch/functional.py:norm"]
    assert second == ["torch/functional.py:norm"]
