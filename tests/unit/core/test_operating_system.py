from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ci.core import operating_system
from ci.core.errors import EXIT_USAGE, SettingsError

KEY = "kern.bootsessionuuid"


def on(monkeypatch: pytest.MonkeyPatch, system: str, **calls: Any) -> None:
    """Be on another system, whose C library has some calls."""
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(**calls))


def test_a_system_is_called_what_people_call_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, said in (("linux", "Linux"), ("darwin", "macOS"), ("freebsd14", "freebsd14")):
        monkeypatch.setattr(sys, "platform", name)
        assert (operating_system.in_words(), operating_system.is_linux()) == (said, name == "linux")


def test_processes_can_be_read_where_there_is_one(tmp_path: Path) -> None:
    assert operating_system.has_proc(tmp_path) is False
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "stat").touch()
    assert operating_system.has_proc(tmp_path) is True


@pytest.mark.parametrize(
    ("system", "answer", "asked"),
    [("darwin", 0, []), ("linux", 0, [(4, 1, 0, 0, 0)]), ("linux", -1, [(4, 1, 0, 0, 0)])],
)
def test_linux_is_asked_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch, system: str, answer: int, asked: list[tuple[int, ...]]
) -> None:
    seen: list[tuple[int, ...]] = []

    def prctl(*words: int) -> int:
        seen.append(words)
        return answer

    on(monkeypatch, system, prctl=prctl)
    assert operating_system.prctl(4, 1) is (system == "linux" and answer == 0)
    assert seen == asked


def said(key: bytes, buffer: Any, _size: object, new: object, length: Any) -> int:
    assert (key, new, length.value) == (KEY.encode(), None, 0)
    buffer.value = b"6E1A"
    return 0


@pytest.mark.parametrize(
    ("system", "calls", "told"),
    [
        ("darwin", {"sysctlbyname": said}, "6E1A"),
        ("darwin", {"sysctlbyname": lambda *_: -1}, ""),
        ("darwin", {}, ""),
        ("linux", {"sysctlbyname": said}, ""),
    ],
)
def test_the_boot_is_told_where_the_kernel_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, calls: dict[str, Any], told: str
) -> None:
    on(monkeypatch, system, **calls)
    monkeypatch.setattr(operating_system, "_BOOT_ID", tmp_path / "boot_id")
    assert (operating_system.sysctl(KEY), operating_system.boot_id()) == (told, told)
    (tmp_path / "boot_id").write_text("abc\n", encoding="ascii")
    assert operating_system.boot_id() == "abc"


@pytest.mark.skipif(not operating_system.has_proc(), reason="it is not Linux")
def test_linux_tells_it() -> None:
    assert operating_system.boot_id()


@pytest.mark.parametrize(
    ("wanted", "system", "method"),
    [
        ("auto", "linux", "fork"),
        ("auto", "darwin", "spawn"),
        ("auto", "freebsd14", "spawn"),
        ("fork", "linux", "fork"),
        ("spawn", "linux", "spawn"),
        ("spawn", "darwin", "spawn"),
    ],
)
def test_a_copy_of_a_process_is_made_where_it_is_safe(
    monkeypatch: pytest.MonkeyPatch, wanted: str, system: str, method: str
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    assert operating_system.start_method(wanted) == method


def test_a_copy_that_is_not_safe_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SettingsError) as caught:
        operating_system.start_method("fork")
    assert (caught.value.exit_code, caught.value.where) == (EXIT_USAGE, "run.start_method")
    assert "'fork' was requested" in caught.value.what
    assert "darwin" in caught.value.what
    assert caught.value.remedy == "give spawn, or leave it at auto, which is spawn here"
