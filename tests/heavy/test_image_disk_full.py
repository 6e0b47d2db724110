"""A container engine whose disk is really full: one of the test's own, on a small file system in memory."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import docker
import pytest

from tests.repositories import commit

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parent.parent.parent
START_S = 60
# The base fits, hardly more.
SIZE = "320m"
# A step of the component's own fills it: on a full disk apt-get may wait for ever for its own methods.
CONTAINERFILE = "FROM {base}\nRUN head -c 600M /dev/zero > /big\n"
STACK = """version: 1
name: full
base: {{image: "{base}"}}
variants: {{pinned: {{version: 2.13.0}}}}
components:
  - name: big
    git: {{url: "{url}", containerfile: Containerfile, paths: [{{source: /big}}]}}
"""


@pytest.fixture
def small_engine(tmp_path: Path) -> Iterator[str]:
    """The address of an engine with little space."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("needs root and dockerd")
    if not os.environ.get("TEST_BASE_IMAGE"):
        pytest.skip("a container engine with a registry is not found (TEST_BASE_IMAGE)")
    data = tmp_path / "data"
    data.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(data)]
    if subprocess.run(mount, check=False, timeout=30, capture_output=True).returncode != 0:
        pytest.skip("a file system in memory cannot be mounted")
    # The names of the sockets below may have some hundred characters.
    short = Path(tempfile.mkdtemp(prefix="spyre-ci-"))
    address = f"unix://{short}/docker.sock"
    program = [
        *("dockerd", "--iptables=false", "--bridge=none", "--default-ulimit", "nproc=32768:32768"),
        *("--default-ulimit", "nofile=20000:20000", "--data-root", str(data), "-H", address),
        *("--exec-root", str(short), "-p", str(tmp_path / "pid")),
    ]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(program, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait(address, tmp_path / "log")
        yield address
    finally:
        server.terminate()
        server.wait(timeout=60)
        # The engine leaves mounts of its own, below which nothing can be removed.
        for line in reversed(Path("/proc/mounts").read_text().splitlines()):
            if (place := line.split()[1]).startswith((f"{tmp_path}/", f"{short}/")):
                subprocess.run(["umount", place], check=True, timeout=30)
        shutil.rmtree(short)


def _wait(address: str, log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        with socket.socket(socket.AF_UNIX) as asked, suppress(OSError):
            asked.connect(address.removeprefix("unix://"))
            return
        time.sleep(0.2)
    pytest.fail(log.read_text()[-2000:])


def test_a_full_disk_is_said_as_one(small_engine: str, tmp_path: Path) -> None:
    base = os.environ["TEST_BASE_IMAGE"]
    commit(tmp_path / "big", {"Containerfile": CONTAINERFILE.format(base=base)})
    (tmp_path / "stack.yaml").write_text(STACK.format(base=base, url=(tmp_path / "big").as_uri()))
    done = subprocess.run(
        [sys.executable, "-m", "ci.cli", "image", "build"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "DOCKER_HOST": small_engine,
            "SPYRE_CI__IMAGE__NETWORK": "host",
            "SPYRE_CI__IMAGE__STACK": "stack.yaml",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 3, said
    assert "disk is full" in said
    client = docker.DockerClient(base_url=small_engine, timeout=30)
    assert not [tag for image in client.images.list() for tag in image.tags if tag.startswith("full:")]
    client.close()
