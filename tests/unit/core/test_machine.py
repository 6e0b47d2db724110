from __future__ import annotations

from pathlib import Path

import pytest

from ci.core import machine


def test_the_boot_is_told_where_the_kernel_tells_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "sysctl", {"kern.bootsessionuuid": "6E1A"}.__getitem__)
    (tmp_path / "boot_id").write_text("abc\n", encoding="ascii")
    assert machine.boot_id(tmp_path / "boot_id") == "abc"
    assert machine.boot_id(tmp_path / "none") == "6E1A"
    monkeypatch.setattr(machine, "sysctl", lambda _: "")
    assert machine.boot_id(tmp_path / "none") == ""


def test_linux_tells_it() -> None:
    if not machine._BOOT_ID.exists():
        pytest.skip("it is not Linux")
    assert machine.boot_id()
