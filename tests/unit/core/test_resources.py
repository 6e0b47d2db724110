"""What this process may use of the machine."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from ci.core.resources import available_cores, compile_jobs, core_quota, groups_of, memory_limit

GIB = 2**30


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("file", "text", "cores"),
    [
        ("cpu.max", "150000 100000\n", 1.5),
        ("cpu.max", "max 100000\n", math.inf),
        ("cpu.max", "", math.inf),
        ("cpu.max", "no sense at all", math.inf),
    ],
)
def test_a_quota_of_version_2_is_read(tmp_path: Path, file: str, text: str, cores: float) -> None:
    write(tmp_path / file, text)
    assert core_quota(groups_of("0::/\n", tmp_path)) == cores


def test_a_quota_of_version_1_is_read(tmp_path: Path) -> None:
    write(tmp_path / "cpu,cpuacct/docker/x/cpu.cfs_quota_us", "200000\n")
    write(tmp_path / "cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n")
    write(tmp_path / "memory/docker/x/memory.limit_in_bytes", f"{3 * GIB}\n")
    groups = groups_of("4:cpu,cpuacct:/docker/x\n5:memory:/docker/x\n", tmp_path)
    assert core_quota(groups) == 2.0
    assert memory_limit(groups) == 3 * GIB


def test_no_limit_of_version_1_is_none(tmp_path: Path) -> None:
    write(tmp_path / "cpu/cpu.cfs_quota_us", "-1\n")
    write(tmp_path / "cpu/cpu.cfs_period_us", "100000\n")
    write(tmp_path / "memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert core_quota(groups_of("", tmp_path)) == math.inf
    assert memory_limit(groups_of("", tmp_path)) == math.inf


def test_the_tightest_group_around_a_process_holds(tmp_path: Path) -> None:
    write(tmp_path / "pod/memory.max", f"{4 * GIB}\n")
    write(tmp_path / "pod/box/memory.max", f"{8 * GIB}\n")
    write(tmp_path / "pod/box/cpu.max", "max 100000\n")
    groups = groups_of("0::/pod/box\n", tmp_path)
    assert memory_limit(groups) == 4 * GIB
    assert core_quota(groups) == math.inf


def test_as_many_compilers_as_fit(tmp_path: Path) -> None:
    membership = tmp_path / "membership"
    write(membership, "0::/\n")
    assert 1 <= compile_jobs(GIB, root=tmp_path, membership=membership) <= available_cores()
    write(tmp_path / "memory.max", f"{GIB}\n")
    assert compile_jobs(2 * GIB, root=tmp_path, membership=membership) == 1
    write(tmp_path / "memory.max", "max\n")
    write(tmp_path / "cpu.max", "50000 100000\n")
    assert compile_jobs(GIB, root=tmp_path, membership=tmp_path / "gone") == 1
