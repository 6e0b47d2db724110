from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ci.core import operating_system


def test_a_system_is_called_what_people_call_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, said in (("linux", "Linux"), ("darwin", "macOS"), ("freebsd14", "freebsd14")):
        monkeypatch.setattr(sys, "platform", name)
        assert (operating_system.in_words(), operating_system.is_linux()) == (said, name == "linux")


def test_processes_can_be_read_where_there_is_one(tmp_path: Path) -> None:
    assert operating_system.has_proc(tmp_path) is False
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "stat").touch()
    assert operating_system.has_proc(tmp_path) is True


class Library:
    """The C library, with what it is asked for."""

    def __init__(self, **calls: Any) -> None:
        self._calls = calls

    def __call__(self, *_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(**self._calls)


def test_linux_is_asked_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...]] = []

    def prctl(*words: int) -> int:
        asked.append(words)
        return 0

    monkeypatch.setattr(ctypes, "CDLL", Library(prctl=prctl))
    monkeypatch.setattr(sys, "platform", "darwin")
    assert operating_system.prctl(4, 1) is False
    monkeypatch.setattr(sys, "platform", "linux")
    assert operating_system.prctl(4, 1) is True
    assert asked == [(4, 1, 0, 0, 0)]


def test_what_the_kernel_refuses_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", Library(prctl=lambda *_: -1))
    assert operating_system.prctl(4, 1) is False


def test_macos_says_a_text_of_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def sysctlbyname(key: bytes, buffer: Any, _size: object, new: object, length: Any) -> int:
        assert (key, new, length.value) == (b"kern.bootsessionuuid", None, 0)
        buffer.value = b"6E1A"
        return 0

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(ctypes, "CDLL", Library(sysctlbyname=sysctlbyname))
    assert operating_system.sysctl("kern.bootsessionuuid") == "6E1A"


@pytest.mark.parametrize("calls", [{}, {"sysctlbyname": lambda *_: -1}])
def test_what_macos_does_not_say_is_empty(monkeypatch: pytest.MonkeyPatch, calls: dict[str, Any]) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(ctypes, "CDLL", Library(**calls))
    assert operating_system.sysctl("kern.bootsessionuuid") == ""


def test_no_other_system_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", None)
    assert operating_system.sysctl("kern.bootsessionuuid") == ""
