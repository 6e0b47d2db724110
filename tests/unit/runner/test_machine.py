from __future__ import annotations

from pathlib import Path

import pytest

from ci.runner import machine


def test_linux_and_macos_each_have_a_name_for_the_time_since_the_machine_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "boot_id").write_text("abc\n", encoding="ascii")
    assert machine.boot_id(tmp_path / "boot_id") == "abc"
    assert machine.boot_id(tmp_path / "none") == ""
    monkeypatch.setattr(machine, "is_linux", lambda: False)
    monkeypatch.setattr(machine, "sysctl", {"kern.bootsessionuuid": "6E1A"}.__getitem__)
    assert machine.boot_id(tmp_path / "boot_id") == "6E1A"
