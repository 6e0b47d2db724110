"""Kills by the kernel are read from the control groups a process is in."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci.runner import oom
from ci.runner.oom import count_kills, event_files, oom_kills


@pytest.mark.parametrize(
    ("membership", "more"),
    [
        ("", set()),
        ("0::/", set()),
        ("0::/user.slice/run-1.scope", {"user.slice/run-1.scope/memory.events"}),
        ("8:pids:/x\n4:memory:/pod/one\n0::/", {"memory/pod/one/memory.oom_control"}),
        ("4:cpu,memory:/", set()),
        ("nonsense\n::", set()),
    ],
)
def test_the_groups_of_both_versions_are_found(membership: str, more: set[str]) -> None:
    always = {"memory.events", "memory/memory.oom_control"}
    assert {str(path) for path in event_files(membership, Path())} == always | more


def test_kills_of_all_groups_are_counted(tmp_path: Path) -> None:
    one, two, other = (tmp_path / name for name in ("one", "two", "other"))
    assert count_kills([one, two, other]) == 0
    one.write_text("low 0\noom 3\noom_kill 2\n", encoding="ascii")
    two.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n", encoding="ascii")
    other.write_text("oom_kill", encoding="ascii")
    assert count_kills([one, two, other]) == 7


def test_a_system_without_control_groups_counts_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oom, "MEMBERSHIP", tmp_path / "none")
    assert oom_kills() >= 0
