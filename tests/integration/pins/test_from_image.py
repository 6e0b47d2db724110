"""The ledger of an image from a real engine and registry, and what a strange image may do."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ci.core.errors import SpyreCiError
from ci.pins.entry_points import signatures
from ci.pins.image_source import PROGRAM, ImageSource, told
from tests.integration.pins.images import TELL, Repository, tells
from tests.packages import make_wheel
from tests.pins_desk import Desk


def tracking(tmp_path: Path, repository: Repository, **more: object) -> Desk:
    track = {"image": repository.address, "direct": ["torch"], **more}
    (tmp_path / "spyre-ci.yaml").write_text(json.dumps({"pins": {"tracks": {"demo": track}}}))
    return Desk(folder=tmp_path)


def test_each_tag_is_a_release_and_one_that_moved_is_another(tmp_path: Path, repository: Repository) -> None:
    tell = tells({"torch": ("2.12.0", ""), "Demo_X": ("1.4", '{"url": "file:///a.whl"}')})
    first = repository.push_fake("1.0", tell=tell)
    for tag in ("buildcache", "1.1-ubi9"):
        repository.push(tag, "LABEL a=b")
    desk = tracking(tmp_path, repository)
    assert "demo: 1 recorded, 0 known, 0 failed" in desk.pins("record")
    assert "buildcache" not in desk.err
    [one] = desk.records("demo")
    assert (one.sha, one.read_by, one.origins) == (first, "importlib.metadata", {"demo-x": "file:///a.whl"})
    assert one.packages == {"torch": "2.12.0", "demo-x": "1.4"}
    assert one.released_at is not None
    moved = repository.push_fake("1.0", lines="RUN true")
    name = f"{repository.address}@sha256:{moved}"
    said = desk.pins("record")
    assert f"1.0 has changed: {first[:12]} is recorded, and the source has {moved[:12]}" in said
    assert f"demo: 1.0 ({moved[:12]}): 2 packages from importlib.metadata; torch 2.12.0 -> 2.13.0" in said
    assert [one.sha for one in desk.records("demo")] == [first, moved]
    assert "0 recorded, 1 known" in desk.pins("record")
    assert repository.remains() == []
    # An image that was here stays here.
    repository.client.images.pull(name)
    for path in (tmp_path / "pins/demo").iterdir():
        path.unlink()
    desk.pins("record")
    assert name in repository.remains()


def test_an_image_is_run_alone_bounded_and_without_its_entry_point(
    tmp_path: Path, repository: Repository
) -> None:
    seen = {
        "mounts": 'grep -c " /host\\| /work\\|docker.sock" /proc/mounts',
        "network": 'ls /sys/class/net | tr "\\n" -',
        "written": "touch /here 2>/dev/null && echo yes || echo no",
        "can": "grep CapEff /proc/self/status | tr -dc 0-9a-f | tail -c 16",
        "memory": "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null",
        "processes": "cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max 2>/dev/null",
        "scratch": "df -k /tmp | tail -n 1 | tr -s ' ' | cut -d ' ' -f 2",
    }
    row = ", ".join(f'\\"{name}\\": [\\"$({words})\\", \\"\\"]' for name, words in seen.items())
    said = f'{{\\"found\\": {{{row}}}, \\"source\\": \\"{EMPTY}\\"}}'
    tell = f'printf "spyre-ci %s\\n" "$(echo "{said}" | base64 -w 0)"'
    repository.push_fake("1.0", tell=tell, lines='ENTRYPOINT ["/bin/sh", "-c", "echo spyre-ci e30="]')
    desk = tracking(tmp_path, repository)
    desk.pins("record")
    assert desk.records("demo")[0].packages == {
        "mounts": "0", "network": "lo-", "written": "no", "can": "0000000000000000", "memory": str(2 << 30),
        "processes": "256", "scratch": str(256 << 10),
    }  # fmt: skip


EMPTY = base64.b64encode(b"PK\5\6" + bytes(18)).decode()


def test_what_an_image_says_commands_no_terminal_and_no_ci(tmp_path: Path, repository: Repository) -> None:
    hostile = tells(
        {"torch": ("\033[31m::error::x\n::error::y\n##[group]", '{"url": "https://u:s3cret@h/"}')}
    )
    repository.push_fake("1.0", tell=f"printf '\\033[31m::error::x\\n##[group]\\n'; {hostile}")
    desk = tracking(tmp_path, repository)
    said = desk.pins("record")
    assert not any(mark in said + desk.err for mark in ("\033", "##["))
    assert "s3cret" not in next((tmp_path / "pins/demo").iterdir()).read_text()
    assert not [line for line in said.splitlines() if line.lstrip().startswith("::")]


@pytest.mark.parametrize(
    ("tell", "said"),
    [
        ("sleep 60", "its python3 did not end within 3 s"),
        ("echo spyre-ci nonsense", "its Python prints no usable list of packages"),
        ("exit 1", "its python3 ended with code 1"),
        (
            "yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "it prints more than 1 MiB",
        ),
        ("", "its python3 does not run"),
    ],
)
def test_an_image_that_tells_nothing_is_not_recorded(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tell: str, said: str
) -> None:
    monkeypatch.setattr("ci.pins.image_source._MOST_BYTES", 1 << 20)
    if tell:
        repository.push_fake("1.0", tell=tell)
    else:
        repository.push("1.0", "LABEL a=b")
    source = ImageSource(client=repository.client, name=repository.address, entry_points=())
    one = replace(source, timeout_s=3 if tell.startswith("sleep") else 60)
    began = time.monotonic()
    with pytest.raises(SpyreCiError, match=said) as caught:
        one.look(one.releases(None)[0])
    assert caught.value.exit_code == 3
    assert time.monotonic() - began < 50
    assert repository.remains() == []


def test_a_repository_tag_or_python_that_is_not_there_is_said(tmp_path: Path, repository: Repository) -> None:
    desk = tracking(tmp_path, repository)
    desk.pins("record", code=2)
    assert f"there is no image {repository.address}" in desk.err
    repository.push("0.9", "LABEL a=b")
    repository.push_fake("1.0", tell=TELL)
    desk.pins("record", "demo", "--release", "2.0", code=2)
    assert f"there is no image {repository.address}:2.0" in desk.err
    desk.pins("record", code=3)
    assert "demo 0.9 was not recorded" in desk.err
    assert [one.version for one in desk.records("demo")] == ["1.0"]


def test_signatures_are_read_from_what_an_image_packs(tmp_path: Path, repository: Repository) -> None:
    source = {"demo/__init__.py": "from .core import run", "demo/core.py": "def run(model, *, steps=3): ..."}
    repository.push_fake("1.0", tell=tells({"torch": ("2", "")}, source))
    desk = tracking(tmp_path, repository, entry_points=["demo:run", "demo:gone", "other:run"])
    desk.pins("record")
    found = desk.records("demo")[0].signatures
    assert (found["demo:gone"], found["other:run"]) == (None, None)
    assert [(one.name, one.default) for one in found["demo:run"] or ()] == [("model", None), ("steps", "3")]


def test_a_python_lists_its_distributions_and_packs_source(tmp_path: Path) -> None:
    site, store = tmp_path / "site", tmp_path / "store.py"
    (site / "demo").mkdir(parents=True)
    (site / "demo/__init__.py").write_text("from .core import run\n")
    store.write_text("def run(model): ...\n")
    (site / "demo/core.py").symlink_to(store)
    info = site / "demo_x-1.4.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Demo_X\nVersion: 1.4\n")
    (info / "direct_url.json").write_text('{"url": "file:///src", "dir_info": {"editable": true}}')
    env = {**os.environ, "PYTHONPATH": str(site)}
    argv = [sys.executable, "-c", PROGRAM, "demo", "gone"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60, env=env)
    lines = [
        line.removeprefix("spyre-ci ") for line in done.stdout.splitlines() if line.startswith("spyre-ci ")
    ]
    packages, origins, source = told("".join(lines), "here")
    assert (packages["demo-x"], origins["demo-x"]) == ("1.4", "editable file:///src")
    assert sorted(source.namelist()) == ["demo/__init__.py", "demo/core.py"]
    assert [one.name for one in signatures(["demo:run"], source)["demo:run"] or ()] == ["model"]


# Debian's packages are fetched and unpacked, which takes most of a minute.
@pytest.mark.nightly
def test_packages_of_a_real_image_are_recorded_however_they_were_installed(
    tmp_path: Path, repository: Repository
) -> None:
    pip = "/opt/venv/bin/pip install --no-index --disable-pip-version-check"
    setup = "from setuptools import setup; setup(name='ours', version='0.7', py_modules=['ours'])"
    steps = f"""RUN apt-get update && apt-get install -y --no-install-recommends python3-venv
COPY . /wheels
RUN python3 -m venv /opt/venv
ENV PATH=/opt/venv/bin:/usr/bin:/bin
ENTRYPOINT ["/bin/false"]
RUN {pip} -f /wheels torch && {pip} /wheels/accelerate-1.2.0-py3-none-any.whl
RUN mkdir /src && echo "{setup}" > /src/setup.py && touch /src/ours.py && {pip} -e /src
# As uv makes them: the pip on the path is another Python's.
RUN /opt/venv/bin/pip uninstall -qy pip && rm -f /opt/venv/bin/pip*
"""
    code = {"torch/__init__.py": "def compile(model, mode=None): ...\n"}
    made = [
        make_wheel(tmp_path, "torch", "2.12.0+cpu", files=code),
        make_wheel(tmp_path, "accelerate", "1.2.0"),
    ]
    repository.push("1.0", steps, {path.name: path.read_bytes() for path in made})
    desk = tracking(tmp_path, repository, direct=["torch", "flash-attn"], entry_points=["torch:compile"])
    desk.pins("record")
    [one] = desk.records("demo")
    assert one.direct == {"torch": "2.12.0+cpu", "flash-attn": None}
    assert one.packages["ours"] == "0.7"
    assert one.origins["accelerate"].startswith("file:///wheels/accelerate-1.2.0-py3-none-any.whl")
    assert "pip" not in one.packages
    assert [each.name for each in one.signatures["torch:compile"] or ()] == ["model", "mode"]
    assert repository.remains() == []
