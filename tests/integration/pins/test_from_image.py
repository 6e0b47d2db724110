"""The ledger of an image from a real engine and registry, and what a strange image may do."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from ci.core.errors import SpyreCiError
from ci.pins.from_image import ImageSource
from tests.integration.pins.calling import Ledger
from tests.integration.pins.images import TELL, Repository


def tracking(tmp_path: Path, repository: Repository, **more: object) -> Ledger:
    folder = tmp_path / "checkout"
    folder.mkdir()
    return Ledger(folder=folder, track={"image": repository.address, "direct": ["torch"], **more})


def source(repository: Repository) -> ImageSource:
    return ImageSource(
        client=repository.client, repository=repository.address, entry_points=(), echo=lambda _: None
    )


def test_each_tag_is_a_release_and_one_that_moved_is_another(tmp_path: Path, repository: Repository) -> None:
    first = repository.push_fake("1.0", freeze="echo torch==2.12.0; echo 'demo-x @ file:///a.whl'")
    ledger = tracking(tmp_path, repository)
    said = ledger("record")
    assert said.code == 0, said.err
    assert (ledger.records[0].sha, ledger.records[0].read_by) == (first, "pip freeze")
    assert ledger.records[0].packages == {"torch": "2.12.0", "demo-x": "1.4"}
    assert ledger.records[0].origins == {"demo-x": "file:///a.whl"}
    assert ledger.records[0].released_at is not None
    moved = repository.push_fake("1.0", lines="RUN true")
    said = ledger("record")
    assert f"1.0 is another one now: {first[:12]} is recorded, {moved[:12]} is there" in said.out
    assert f"demo 1.0 ({moved[:12]}): 1 package by pip freeze; torch 2.12.0 -> 2.13.0" in said.out
    assert [one.sha for one in ledger.records] == [first, moved]
    assert "0 recorded, 1 known" in ledger("record").out
    assert "demo-x 1.4 is gone" in ledger("diff", "demo").out
    assert repository.remains() == []


def test_without_pip_the_metadata_tells(tmp_path: Path, repository: Repository) -> None:
    repository.push_fake("1.0", freeze="echo 'No module named pip' >&2; exit 1")
    ledger = tracking(tmp_path, repository)
    assert "2 packages by importlib.metadata" in ledger("record", "demo", "--release", "1.0").out
    assert ledger.records[0].packages == {"torch": "2.13.0", "demo-x": "1.4"}


def test_an_image_that_was_here_stays_here(tmp_path: Path, repository: Repository) -> None:
    digest = repository.push_fake("1.0")
    name = f"{repository.address}@sha256:{digest}"
    repository.client.images.pull(name)
    assert tracking(tmp_path, repository)("record").code == 0
    assert name in repository.remains()


def test_an_image_is_run_alone_and_without_its_entry_point(tmp_path: Path, repository: Repository) -> None:
    seen = (
        'echo "mounts==$(grep -c " /host\\| /work\\|docker.sock" /proc/mounts)"; '
        'echo "network==$(ls /sys/class/net | tr "\\n" -)"; '
        'echo "written==$(touch /here 2>/dev/null && echo yes || echo no)"; '
        'echo "can==$(grep CapEff /proc/self/status | tr -dc 0-9a-f | tail -c 16)"'
    )
    repository.push_fake("1.0", freeze=seen, lines='ENTRYPOINT ["/bin/sh", "-c", "echo torch==6.6.6"]')
    ledger = tracking(tmp_path, repository)
    assert ledger("record").code == 0
    found = ledger.records[0].packages
    assert found == {"mounts": "0", "network": "lo-", "written": "no", "can": "0000000000000000"}


def test_an_image_has_so_much_memory_and_so_many_processes(tmp_path: Path, repository: Repository) -> None:
    seen = (
        "for one in memory/memory.limit_in_bytes memory.max; do "
        "test -r /sys/fs/cgroup/$one && echo memory==$(cat /sys/fs/cgroup/$one); done; "
        "for one in pids/pids.max pids.max; do "
        "test -r /sys/fs/cgroup/$one && echo processes==$(cat /sys/fs/cgroup/$one); done; "
        "echo scratch==$(df -k /tmp | tail -n 1 | tr -s ' ' | cut -d ' ' -f 2)"
    )
    repository.push_fake("1.0", freeze=seen)
    ledger = tracking(tmp_path, repository)
    assert ledger("record").code == 0
    found = ledger.records[0].packages
    assert found == {"memory": str(2 << 30), "processes": "256", "scratch": str(256 << 10)}


def test_a_tag_that_is_no_version_is_not_pulled(tmp_path: Path, repository: Repository) -> None:
    for tag in ("buildcache", "latest"):
        repository.push(tag, "LABEL a=b")
    repository.push_fake("1.0")
    repository.push_fake("1.1-ubi9")
    said = tracking(tmp_path, repository)("record")
    assert (said.code, "demo: 1 recorded, 0 known, 0 not to be recorded" in said.out) == (0, True)
    assert "buildcache" not in said.err


def test_what_an_image_says_commands_no_terminal_and_no_ci(tmp_path: Path, repository: Repository) -> None:
    repository.push_fake(
        "1.0",
        freeze=r"printf 'torch==\033[31m::error::x\n::error::y\n##[group]\nhttps://u:s3cret@h/\n'",
    )
    ledger = tracking(tmp_path, repository)
    said = ledger("record")
    assert said.code == 0
    assert "\033" not in said.out
    assert "s3cret" not in said.out
    assert not [line for line in said.out.splitlines() if line.lstrip().startswith("::") or "##[" in line]


@pytest.mark.parametrize(
    ("tell", "said"),
    [
        ("sleep 60", "python3 of it did not end within 3 s"),
        ("echo nonsense", "its Python says something else than its packages"),
        ("echo 'spyre-ci packages [3]'", "its Python says something else than its packages"),
        ("exit 1", "neither python3 nor python of it tells what is installed"),
        (
            "yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "it says more than 8 MiB",
        ),
    ],
)
def test_an_image_that_tells_nothing_is_not_recorded(repository: Repository, tell: str, said: str) -> None:
    repository.push_fake("1.0", tell=tell)
    one = replace(source(repository), timeout_s=3 if tell.startswith("sleep") else 60)
    began = time.monotonic()
    with pytest.raises(SpyreCiError, match=said) as caught:
        one.look(one.releases(None)[0])
    assert caught.value.exit_code == 3
    assert time.monotonic() - began < 50
    assert repository.remains() == []


def test_an_image_without_python_holds_up_no_other(tmp_path: Path, repository: Repository) -> None:
    repository.push("0.9", "LABEL a=b")
    repository.push_fake("1.0", tell=TELL)
    ledger = tracking(tmp_path, repository)
    said = ledger("record")
    assert said.code == 3
    assert "demo 0.9 is not recorded" in said.err
    assert [one.version for one in ledger.records] == ["1.0"]


def test_a_repository_or_tag_that_is_not_there_is_said(tmp_path: Path, repository: Repository) -> None:
    ledger = tracking(tmp_path, repository)
    said = ledger("record")
    assert (said.code, f"there is no image {repository.address}" in said.err) == (2, True)
    repository.push("1.0", "LABEL a=b")
    said = ledger("record", "demo", "--release", "2.0")
    assert (said.code, f"there is no image {repository.address}:2.0" in said.err) == (2, True)


def test_signatures_are_read_from_an_image_that_does_not_run(tmp_path: Path, repository: Repository) -> None:
    lines = """RUN mkdir -p /site/demo /store && \\
        echo 'from .core import run' > /site/demo/__init__.py && \\
        echo 'def run(model, *, steps=3): ...' > /store/core.py && \\
        ln -s ../../store/core.py /site/demo/core.py"""
    repository.push_fake("1.0", lines=lines)
    ledger = tracking(tmp_path, repository, entry_points=["demo:run", "demo:gone", "other:run"])
    assert ledger("record").code == 0
    found = ledger.records[0].signatures
    assert found["demo:gone"] is None
    assert found["other:run"] is None
    parameters = found["demo:run"]
    assert parameters is not None
    assert [(one.name, one.default) for one in parameters] == [("model", None), ("steps", "3")]
